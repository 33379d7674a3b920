package run

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
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

// Each field of a record survives the conversion to JSON and back.
func TestRecordComesBackFromJSON(t *testing.T) {
	r := Record{Format: savedFormat, Provider: "memory", Pushes: true, History: new(history.History)}
	fill(reflect.ValueOf(r.History).Elem())
	fill(reflect.ValueOf(&r.Lateness).Elem())
	text, err := json.Marshal(r)
	require.NoError(t, err)
	again, err := ReadRecord(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, r, again)
}

// fill sets each field to a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		v.SetInt(7)
	}
}

// The limits include the defaults that package leasing documents, and the longest time for which a fault of the plan may
// have consequences.
func TestLimitsOfTheChecks(t *testing.T) {
	o := Options{Plan: chaos.GrayFailure(chaos.GrayFailureOptions{}), Manager: leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}}}
	l := o.Limits(leasing.Lateness{}, false)
	require.True(t, l.Heedless)
	require.Greater(t, l.Reach, 2*time.Second)
	require.Equal(t, time.Second, l.MaxPoll)
	require.InDelta(t, 0.6, l.RenewFraction, 0)
	require.Equal(t, 22*time.Millisecond, l.Margin(2*time.Second))
	o.Manager.NoAutoRenew = true
	l = o.Limits(leasing.Lateness{}, false)
	require.Zero(t, l.RenewFraction)
}
