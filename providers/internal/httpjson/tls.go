package httpjson

import "github.com/distributedleasing/leasing/abstractions/providerkit/livefile"

// TLS sets the PEM files of the client's own transport: the authorities to trust, and the
// client's certificate and key. Each new connection uses their newest contents. A name may be
// empty: see livefile.NewTLS.
func (c *Client) TLS(caFile, certFile, keyFile string) error {
	files, err := livefile.NewTLS(caFile, certFile, keyFile)
	if err == nil {
		c.transport.UseTLS(files)
	}
	return err
}
