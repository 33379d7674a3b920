package auth_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/distributedleasing/leasing/auth"
)

func ExampleNew() {
	credential, err := auth.New(auth.Options{
		Mode:            auth.ManagedIdentity,
		ManagedIdentity: auth.ManagedIdentityOptions{ClientID: "11111111-1111-1111-1111-111111111111"},
	})
	fmt.Println(credential != nil, err)
	// Output: true <nil>
}

// Options can be a section of an application's configuration.
func ExampleOptions_json() {
	var configuration struct {
		Auth auth.Options
	}
	err := json.Unmarshal([]byte(`{
		"auth": {
			"mode": "ServicePrincipal",
			"service_principal": {"tenant_id": "example.onmicrosoft.com", "client_id": "my-client", "client_secret": "my-secret"}
		}
	}`), &configuration)
	fmt.Println(err)
	fmt.Println(configuration.Auth)
	// Output:
	// <nil>
	// auth.Options{Mode: "ServicePrincipal", ServicePrincipal: auth.ServicePrincipalOptions{TenantID: "example.onmicrosoft.com", ClientID: "my-client", ClientSecret: (not shown)}}
}

// A function returns the tokens of another issuer, such as another cloud.
func ExampleOptions_federated() {
	options := auth.Options{
		Mode: auth.FederatedCredential,
		FederatedCredential: auth.FederatedCredentialOptions{
			TenantID: "example.onmicrosoft.com",
			ClientID: "my-client",
			Token:    func(context.Context) (string, error) { return "the other issuer's token", nil },
		},
	}
	fmt.Println(auth.Explain(options))
	// Output:
	// auth: mode FederatedCredential, https://login.microsoftonline.com/
	//   1. federated credential: client my-client of tenant example.onmicrosoft.com, with tokens from a function
}

// A program may log the explanation when it starts.
func ExampleExplain() {
	fmt.Println(auth.Explain(auth.Options{Mode: auth.ManagedIdentity}))
	// Output:
	// auth: mode ManagedIdentity
	//   1. managed identity: system-assigned
}
