//go:build !linux

package sqllease

import (
	"context"
	"errors"
)

// pipe is for Linux only: elsewhere a pipe can't be waited for (golang.org/issue/24164), or there are
// none with a name.
type pipe struct{}

func makePipe(string, pipeName) (*pipe, error) { return nil, errors.ErrUnsupported }

func writePipe(string, string) (alive bool) { return true }

func (*pipe) receive(context.Context) (string, error) { return "", errors.ErrUnsupported }
func (*pipe) check() error                            { return errors.ErrUnsupported }
func (*pipe) close()                                  {}
