package httpjson

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/distributedleasing/leasing/abstractions"
)

// TLS sets whom a client of our making trusts, and as whom it comes, by files in PEM; "" leaves
// either as it is.
func (c *Client) TLS(caFile, certFile, keyFile string) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	c.transport.TLSClientConfig = config
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		config.RootCAs = x509.NewCertPool()
		if err == nil && !config.RootCAs.AppendCertsFromPEM(pem) {
			err = errors.New("there is no certificate in it")
		}
		if err != nil {
			return fmt.Errorf("%w: the file of CAs: %w", abstractions.ErrInvalid, err)
		}
	}
	if certFile != "" {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return fmt.Errorf("%w: the client's certificate or its key: %w", abstractions.ErrInvalid, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return nil
}
