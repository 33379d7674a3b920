package providerkit

import "github.com/distributedleasing/leasing/abstractions"

// Lend implements the method As of a provider that wraps another. It sets *target to self if the other provider has the
// ability that *target stands for. Abilities that are not in package abstractions are hidden.
func Lend(self any, other abstractions.Provider, target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		return lend(self, other, ability)
	case *abstractions.Lister:
		return lend(self, other, ability)
	case *abstractions.Waiter:
		return lend(self, other, ability)
	case *abstractions.WaiterLister:
		return lend(self, other, ability)
	case *abstractions.Pinger:
		return lend(self, other, ability)
	case *abstractions.HistoryReader:
		return lend(self, other, ability)
	}
	return false
}

func lend[T any](self any, other abstractions.Provider, ability *T) bool {
	_, has := abstractions.As[T](other)
	if has {
		*ability = self.(T)
	}
	return has
}
