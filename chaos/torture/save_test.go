package torture

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
)

func TestOptionsComeBackFromJSON(t *testing.T) {
	options := Options{
		Seed: 7, TTL: time.Second, Plan: chaos.LostReplies(chaos.LostRepliesOptions{}), Votes: true,
		Manager: leasing.Options{TTL: 3 * time.Second, Tuning: leasing.Tuning{DriftFactor: 0.25, RequestTimeout: time.Minute}},
	}
	text, err := json.Marshal(portable(options))
	require.NoError(t, err)
	require.Equal(t, strings.ToLower(string(text)), string(text), "one casing")
	require.Contains(t, string(text), `"request_timeout":60000000000`)

	var again portable
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, options, Options(again))

	require.Error(t, json.Unmarshal([]byte(`{"manager":{"ttl":"3s"}}`), &again))
	require.Error(t, json.Unmarshal([]byte(`{"manager":[]}`), &again))
	require.Error(t, json.Unmarshal([]byte(`{"seed":"x"}`), &again))
}

func TestNamesInJSON(t *testing.T) {
	for name, want := range map[string]string{"TTL": "ttl", "MinTTL": "min_ttl", "TTLPolicy": "ttl_policy", "DriftFactor": "drift_factor", "MaxPoll": "max_poll"} {
		require.Equal(t, want, snake(name))
	}
}
