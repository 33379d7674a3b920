package authtest

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", s.configuration)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", s.countRequests(s.token))
	mux.HandleFunc("GET /identity", s.countRequests(s.managedIdentity))
	mux.HandleFunc("GET /job", s.countRequests(s.jobToken))
	return mux
}

// configuration implements
// learn.microsoft.com/entra/identity-platform/v2-protocols-oidc, "Fetch the OpenID
// configuration document", reduced to the fields that MSAL reads.
func (s *Server) configuration(w http.ResponseWriter, r *http.Request) {
	tenant := s.base + "/" + r.PathValue("tenant")
	answer(w, http.StatusOK, map[string]any{
		"issuer":                 tenant + "/v2.0",
		"authorization_endpoint": tenant + "/oauth2/v2.0/authorize",
		"token_endpoint":         tenant + "/oauth2/v2.0/token",
	})
}

// countRequests counts a request, and answers with an error after Fail. The handler runs under mu.
func (s *Server) countRequests(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		if s.status != 0 {
			switch s.status {
			case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
				refuse(w, s.status, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
			default:
				refuse(w, s.status, "temporarily_unavailable", "AADSTS90033: A transient error has occurred.")
			}
			return
		}
		handle(w, r)
	}
}

// token implements learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.PathValue("tenant") != TenantID || r.Form.Get("client_id") != ClientID {
		refuse(w, http.StatusBadRequest, "unauthorized_client", "AADSTS700016: Application was not found in the directory.")
		return
	}
	secret, assertion := r.Form.Get("client_secret"), r.Form.Get("client_assertion")
	if secret != "" && secret != s.secret {
		refuse(w, http.StatusUnauthorized, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
		return
	} else if secret == "" && !s.subjects[assertion] && !s.isSigned(assertion, s.base+r.URL.Path) {
		refuse(w, http.StatusUnauthorized, "invalid_client", "AADSTS700024: Client assertion is not within its valid time range, or not trusted.")
		return
	}
	scope, _, _ := strings.Cut(r.Form.Get("scope"), " ") // MSAL adds openid and others
	token, expires := s.sign(strings.TrimSuffix(scope, "/.default"))
	s.issued = append(s.issued, token)
	answer(w, http.StatusOK, map[string]any{ // "expires_in" is counted from the answer's arrival
		"access_token": token, "token_type": "Bearer", "expires_in": int(math.Round(time.Until(expires).Seconds())),
	})
}

// managedIdentity implements
// learn.microsoft.com/azure/app-service/overview-managed-identity, "REST endpoint
// reference".
func (s *Server) managedIdentity(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case r.Header.Get("X-Identity-Header") != s.header:
		refuse(w, http.StatusForbidden, "unauthorized", "the secret is wrong")
	case query.Get("client_id") != s.identity:
		refuse(w, http.StatusBadRequest, "invalid_request", "Identity not found")
	default:
		token, expires := s.sign(query.Get("resource"))
		s.issued = append(s.issued, token)
		answer(w, http.StatusOK, map[string]any{
			"access_token": token, "token_type": "Bearer", "client_id": s.identity,
			"resource": query.Get("resource"), "expires_on": strconv.FormatInt(expires.Unix(), 10),
		})
	}
}

// jobToken implements docs.github.com/actions/reference/security/oidc.
func (s *Server) jobToken(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.job {
		refuse(w, http.StatusUnauthorized, "unauthorized", "the job's token is wrong")
		return
	}
	if r.URL.Query().Get("audience") != "api://AzureADTokenExchange" {
		refuse(w, http.StatusBadRequest, "invalid_request", "no federated credential has this audience")
		return
	}
	answer(w, http.StatusOK, map[string]any{"value": s.newSubject()})
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, map[string]any{"error": code, "error_description": description})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
