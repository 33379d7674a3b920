//go:build !unix

package sqlitelease

import "errors"

// givesUp is for Unix systems only.
func givesUp(string) error { return errors.ErrUnsupported }
