package abstractions

import "context"

// Opener opens a provider by its URL. Each provider package has a function Opener
// that returns one; applications pass it to open.URL.
type Opener struct {
	Schemes []string // of the URLs: "redis", in lower case and without ://
	Open    func(ctx context.Context, rawURL string) (Provider, error)
}

// NewOpener makes an Opener from a provider's own OpenURL.
func NewOpener[P Provider](openURL func(ctx context.Context, rawURL string) (P, error), schemes ...string) Opener {
	return Opener{schemes, func(ctx context.Context, rawURL string) (Provider, error) {
		provider, err := openURL(ctx, rawURL)
		if err != nil {
			return nil, err // not an interface around a nil pointer
		}
		return provider, nil
	}}
}
