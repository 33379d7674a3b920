package livefile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Source returns the secret for the next request. It is safe for concurrent use. The context bounds the call of the
// application's function, but not the read of a file. The error is a *providerkit.CredentialError.
type Source func(ctx context.Context) (string, error)

// NewSource makes a Source from the options Secret (ask) and SecretFile (file), one of which is set.
// check refuses a text that can't be a secret of the service.
//
// ask is called for each request, but not by NewSource. check is called for a text that differs from the last
// valid text.
//
// file is read by NewSource, and again when it changes: see Value. If NewSource can't read
// the file, the error is leasing.ErrNotSetUp.
func NewSource(ask func(context.Context) (string, error), file string, check func(text string) error) (Source, error) {
	if ask != nil {
		return functionSource(ask, check), nil
	}
	value := NewText(file, check)
	_, err := value.Get()
	if err != nil && !errors.Is(err, abstractions.ErrInvalid) {
		err = fmt.Errorf("%w: Options.SecretFile: %w", abstractions.ErrNotSetUp, err)
	}
	return func(context.Context) (string, error) { return value.Get() }, err
}

// functionSource returns the Source of a function.
func functionSource(ask func(context.Context) (string, error), check func(string) error) Source {
	var good atomic.Pointer[string]
	return func(ctx context.Context) (string, error) {
		text, err := providerkit.AskCredentials(ctx, nil, ask)
		if err != nil {
			return "", err
		}
		if last := good.Load(); last != nil && *last == text {
			return text, nil
		}
		if text == "" {
			err = errors.New("Options.Secret returned an empty text")
		} else {
			err = check(text)
		}
		if err != nil {
			return "", providerkit.NewCredentialError(err, false)
		}
		good.Store(&text)
		return text, nil
	}
}
