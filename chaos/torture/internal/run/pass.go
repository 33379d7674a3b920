package run

import (
	"context"
	"reflect"

	"github.com/distributedleasing/leasing"
)

// Share makes an Options.Open of a provider that is its own backend, such as
// memlease's. All workers get this provider, and no worker closes the provider.
func Share(provider leasing.Provider) func(context.Context) (leasing.Provider, error) {
	return func(context.Context) (leasing.Provider, error) { return unclosed{provider}, nil }
}

type unclosed struct{ leasing.Provider }

func (unclosed) Close() error { return nil }

// As forwards all abilities of the provider.
func (u unclosed) As(target any) bool { return forward(u.Provider, target) }

// forward forwards an ability that no check reads. It is abstractions.As for a type that is
// not known at compile time.
func forward(p leasing.Provider, target any) bool {
	if wrapper, ok := p.(interface{ As(target any) bool }); ok {
		return wrapper.As(target)
	}
	ability := reflect.ValueOf(target).Elem()
	ok := reflect.TypeOf(p).Implements(ability.Type())
	if ok {
		ability.Set(reflect.ValueOf(p))
	}
	return ok
}
