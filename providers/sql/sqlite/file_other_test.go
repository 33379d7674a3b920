//go:build !unix

package sqlitelease

import "errors"

// dropRights is for Unix systems only.
func dropRights(string) error { return errors.ErrUnsupported }
