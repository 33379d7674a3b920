package kuberneteslease

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
)

// T179: Open and Health accept a role that names individual leases (resourceNames), although they read another lease, which the
// server refuses.
func TestTrap_T179_APingNeedsNoRightThatTheWorkDoesNotNeed(t *testing.T) {
	const named = `{"verbs": ["get", "update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["orders"]}`
	review := func(rules string) string {
		return `{"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "status": {"resourceRules": [` + rules + `], "incomplete": false}}`
	}
	for what, c := range map[string]struct {
		status int
		answer string
		want   error
	}{
		"named leases":          {http.StatusCreated, review(named), nil},
		"all":                   {http.StatusCreated, review(`{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}`), nil},
		"rules that are hidden": {http.StatusCreated, strings.Replace(review(""), "false", "true", 1), nil},
		"no rule":               {http.StatusCreated, review(""), abstractions.ErrDenied},
		"another resource":      {http.StatusCreated, review(strings.Replace(named, `"leases"`, `"pods"`, 1)), abstractions.ErrDenied},
		"another verb":          {http.StatusCreated, review(`{"verbs": ["watch"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}`), abstractions.ErrDenied},
		"no review":             {http.StatusForbidden, statusAnswer(http.StatusForbidden, "selfsubjectrulesreviews"), abstractions.ErrDenied},
		"a page":                {http.StatusOK, "{}", abstractions.ErrDenied},
	} {
		t.Run(what, func(t *testing.T) {
			p, w := openOverWire(t, unreachableOptions())
			asked := 0
			*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
				asked++
				if req.Method == http.MethodPost {
					require.Equal(t, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", req.URL.Path)
					return faulttest.Answer(req, c.status, c.answer), nil
				}
				return faulttest.Answer(req, http.StatusForbidden, statusAnswer(http.StatusForbidden, "leases")), nil
			}
			err := p.Ping(t.Context())
			require.Equal(t, 2, asked)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.want, fmt.Sprint(err))
		})
	}
}
