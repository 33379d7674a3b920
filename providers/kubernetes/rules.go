package kuberneteslease

import (
	"context"
	"net/http"
	"slices"
)

// review requests the rules of the account in a namespace, which every account may read
// (system:basic-user):
// kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-rules-review-v1.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Namespace string `json:"namespace"`
	} `json:"spec"`
	Status struct {
		ResourceRules []rule `json:"resourceRules"`
		Incomplete    bool   `json:"incomplete"` // an authorizer, such as a webhook, can't list its rules
	} `json:"status"`
}

type rule struct {
	Verbs     []string `json:"verbs"`
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
}

const (
	reviewVersion = "authorization.k8s.io/v1"
	reviewKind    = "SelfSubjectRulesReview"
)

// Marked reports whether the answer comes from an API server.
func (r *review) Marked(http.Header) bool {
	return r.APIVersion == reviewVersion && r.Kind == reviewKind
}

// mayReadSome reports whether the account may read any lease of the namespace.
func (s *store) mayReadSome(ctx context.Context) (bool, error) {
	asked := review{APIVersion: reviewVersion, Kind: reviewKind}
	asked.Spec.Namespace = s.namespace
	var answer review
	if _, err := s.client.Do(ctx, http.MethodPost, "/apis/"+reviewVersion+"/selfsubjectrulesreviews", nil, &asked, &answer); err != nil {
		return false, err
	}
	return answer.Status.Incomplete || slices.ContainsFunc(answer.Status.ResourceRules, func(r rule) bool {
		return has(r.Verbs, "get") && has(r.APIGroups, group) && has(r.Resources, "leases")
	}), nil
}

func has(list []string, one string) bool {
	return slices.Contains(list, one) || slices.Contains(list, "*")
}
