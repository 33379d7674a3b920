package auth

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	"software.sslmate.com/src/go-pkcs12"
)

const (
	fieldCertificate = "auth.Options.ServicePrincipal.CertificatePath"
	fieldPassword    = "auth.Options.ServicePrincipal.CertificatePassword"
)

// clientCertificate returns a credential that authenticates with the certificate in the newest contents
// of a file. A new certificate starts without the cached tokens of its predecessor.
func (o Options) clientCertificate() (azcore.TokenCredential, error) {
	client, disableDiscovery := o.clientOptions()
	s := o.ServicePrincipal
	newest := livefile.New(func(contents [][]byte) (*azidentity.ClientCertificateCredential, error) {
		certificates, key, err := readCertificate(s.CertificatePath, contents[0], s.CertificatePassword)
		if err != nil {
			return nil, err
		}
		made, err := azidentity.NewClientCertificateCredential(s.TenantID, s.ClientID, certificates, key, &azidentity.ClientCertificateCredentialOptions{
			ClientOptions: client, DisableInstanceDiscovery: disableDiscovery, SendCertificateChain: s.SendCertificateChain,
		})
		if err != nil {
			return nil, invalid(fieldCertificate, s.CertificatePath, "a certificate with an RSA key: "+err.Error())
		}
		return made, nil
	}, s.CertificatePath)
	_, err := newest.Get()
	if _, already := errors.AsType[*leasing.InvalidError](err); err != nil && !already {
		err = invalid(fieldCertificate, s.CertificatePath, "a file that can be read: "+err.Error())
	}
	if err != nil {
		return nil, err
	}
	return credentialFunc(func(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
		made, err := newest.Get()
		if err != nil {
			return azcore.AccessToken{}, err
		}
		token, err := made.GetToken(ctx, options)
		if stale := newest.Stale(); err != nil && stale != nil {
			err = fmt.Errorf("%w (the newest certificate is not in use: %v)", err, stale)
		}
		return token, err
	}), nil
}

// readCertificate reads a certificate, its issuers' certificates, and its key. In PEM the key must not be encrypted.
func readCertificate(path string, data []byte, password string) ([]*x509.Certificate, crypto.PrivateKey, error) {
	if block, _ := pem.Decode(data); block == nil {
		return readPKCS12(path, data, password)
	}
	certificates, key, err := azidentity.ParseCertificates(data, nil)
	switch {
	case err != nil:
		return nil, nil, invalid(fieldCertificate, path, "PEM with a certificate and its RSA key, which is not encrypted"+
			" (openssl pkcs12 -export -in this.pem -out that.pfx makes PKCS#12 of others): "+err.Error())
	case password != "":
		return nil, nil, invalid(fieldPassword, notShown, "no value, since the file is PEM with a key that is not encrypted")
	}
	return certificates, key, nil
}

// readPKCS12 also reads files that OpenSSL 3 writes, which are authenticated with
// SHA-256. azidentity.ParseCertificates can't read them, as it documents.
func readPKCS12(path string, data []byte, password string) ([]*x509.Certificate, crypto.PrivateKey, error) {
	key, certificate, above, err := pkcs12.DecodeChain(data, password)
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, nil, invalid(fieldPassword, notShown, "the password of "+path)
	case err != nil:
		return nil, nil, invalid(fieldCertificate, path, "PEM or PKCS#12 with one certificate and its key: "+err.Error())
	}
	return append([]*x509.Certificate{certificate}, above...), key, nil
}
