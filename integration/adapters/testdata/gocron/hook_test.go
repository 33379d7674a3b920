package gocron

// The adapter's constructors, which the tests of this package can't import. Each refusal sends on refused.
var (
	leaseLocker  func(refused chan<- struct{}) Locker
	leaseElector func(refused chan<- struct{}) Elector
	heldLocker   func() Locker
)

// Hook sets the constructors.
func Hook(locker func(refused chan<- struct{}) Locker, elector func(refused chan<- struct{}) Elector, held func() Locker) {
	leaseLocker, leaseElector, heldLocker = locker, elector, held
}
