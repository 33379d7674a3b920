package certmagic_test

import (
	"github.com/caddyserver/certmagic"

	certmagiclease "github.com/distributedleasing/leasing/adapters/certmagic"
	"github.com/distributedleasing/leasing/integration/adapters/hosttest"
)

func init() {
	certmagic.Adapter = func(files *certmagic.FileStorage) certmagic.Storage {
		return certmagiclease.New(files, hosttest.NewManager(), files.Path+"/")
	}
}
