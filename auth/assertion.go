package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

// tokenFunc returns another issuer's token, to present to Entra ID.
type tokenFunc = func(context.Context) (string, error)

// fileToken reads the newest token from a file for each request to Entra ID. The file is replaced before its token expires:
// Kubernetes does so at 80 percent of the token's lifetime.
func fileToken(path string) tokenFunc {
	newest := livefile.NewText(path, nil)
	return func(context.Context) (string, error) {
		token, err := newest.Get()
		if err != nil {
			return "", fmt.Errorf("the token file: %w", err)
		}
		return token, nil
	}
}

// notEmpty refuses an empty token. Entra ID would answer an empty token with a misleading error.
func notEmpty(token tokenFunc) tokenFunc {
	return func(ctx context.Context) (string, error) {
		text, err := token(ctx)
		if err == nil && text == "" {
			err = errors.New("the other issuer's token is empty")
		}
		if already := (*assertionError)(nil); err == nil || errors.As(err, &already) {
			return text, err
		}
		return "", &assertionError{err: err, failed: redactedFailure(nil)}
	}
}

// assertionError is a failure to get another issuer's token. azidentity keeps
// only the text of foreign errors, so assertionError unwraps to an error of azidentity.
type assertionError struct {
	err    error
	failed *azidentity.AuthenticationFailedError
}

func (e *assertionError) Error() string   { return e.err.Error() }
func (e *assertionError) Unwrap() []error { return []error{e.err, e.failed} }

// validateGitHub checks the variables of a job with the permission "id-token: write".
func validateGitHub() error {
	address, token := os.Getenv(envGitHubURL), os.Getenv(envGitHubToken)
	switch u, err := url.Parse(address); {
	case address == "":
		return invalid("auth.Options.WorkloadIdentity.TokenFilePath", "",
			"a file with a token; or "+envTokenFile+"; or in a GitHub Actions job the permission id-token: write")
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return invalid(envGitHubURL, notShown, "an address that begins with https://")
	case token == "":
		return invalid(envGitHubToken, "", "the token that comes with "+envGitHubURL)
	}
	return nil
}

const gitHubJob = "the token of the GitHub Actions job"

// gitHubToken requests a job's token (docs.github.com/actions/reference/security/oidc,
// "Methods for requesting the OIDC token"). The variables are valid for the whole job,
// and are read for each request.
func (o Options) gitHubToken() tokenFunc {
	pipeline, audience := o.pipeline(), o.audience()
	return func(ctx context.Context) (string, error) {
		if err := validateGitHub(); err != nil {
			return "", err
		}
		request, err := runtime.NewRequest(ctx, http.MethodGet, os.Getenv(envGitHubURL))
		if err != nil {
			return "", errors.New(envGitHubURL + " is not an address")
		}
		query := request.Raw().URL.Query()
		query.Set("audience", audience)
		request.Raw().URL.RawQuery = query.Encode()
		request.Raw().Header.Set("Authorization", "Bearer "+os.Getenv(envGitHubToken))
		response, err := pipeline.Do(request)
		if err != nil {
			return "", fmt.Errorf("%s: %w", gitHubJob, err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return "", &assertionError{err: fmt.Errorf("%s: %s", gitHubJob, describe(response)), failed: redactedFailure(response)}
		}
		var answer struct {
			Value string `json:"value"`
		}
		if body, err := runtime.Payload(response); err != nil || json.Unmarshal(body, &answer) != nil {
			return "", errors.New(gitHubJob + ": the answer is not GitHub's") // the body may contain a token
		}
		return answer.Value, nil
	}
}

// pipeline returns a pipeline for requests that no credential of azidentity sends.
func (o Options) pipeline() runtime.Pipeline {
	client := o.Client
	client.Retry, client.Transport = retries(client.Retry), withoutRedirects(client.Transport)
	return runtime.NewPipeline("leasing/auth", "", runtime.PipelineOptions{}, &client)
}
