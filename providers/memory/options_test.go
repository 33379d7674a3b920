package memlease

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestOptionsInJSONAndURL(t *testing.T) {
	for _, tt := range []struct {
		json, url string
		want      Options
	}{
		{`{}`, "memory://", Options{}},
		{`{}`, "memory:///", Options{}},
		{`{"retention": "90m"}`, "memory://?retention=90m", Options{Retention: 90 * time.Minute}},
		{`{"retention": "forever"}`, "memory://?retention=forever", Options{Retention: abstractions.Infinite}},
		{`{"history": 10, "history_renewals": true}`, "memory://?history=10&history_renewals=true", Options{History: 10, HistoryRenewals: true}},
	} {
		var options Options
		require.NoError(t, json.Unmarshal([]byte(tt.json), &options), tt.json)
		require.Equal(t, tt.want, options, tt.json)
		p, err := OpenURL(t.Context(), tt.url)
		require.NoError(t, err, tt.url)
		want, err := tt.want.complete()
		require.NoError(t, err)
		want.Now, p.memory.options.Now = nil, nil
		require.Equal(t, want, p.memory.options, tt.url)
	}
}

func TestBadOptionsNameTheField(t *testing.T) {
	for text, field := range map[string]string{
		`{"retention": "soon"}`: "Retention", `{"retention": 5}`: "Retention", `{"histroy": 1}`: "histroy", `[]`: "Options", `{"history": "x"}`: "History",
	} {
		var options Options
		err := json.Unmarshal([]byte(text), &options)
		require.ErrorIs(t, err, abstractions.ErrInvalid, text)
		require.ErrorContains(t, err, field, text)
	}
	for url, field := range map[string]string{
		"": "URL", "redis://": "URL", "memory://host": "URL", "memory://user@": "URL", "memory:///path": "URL", "memory://#x": "URL", "memory://?a=%zz": "URL", ":": "URL",
		"memory://?retention=1": "retention", "memory://?retention=-1s": "Retention", "memory://?history=-1": "History", "memory://?history=x": "history",
		"memory://?history_renewals=1": "HistoryRenewals", "memory://?history_renewals=maybe": "history_renewals",
		"memory://?history=1&history=2": "history", "memory://?retain=1s": "retain",
	} {
		_, err := OpenURL(t.Context(), url)
		require.ErrorIs(t, err, abstractions.ErrInvalid, url)
		require.ErrorContains(t, err, field, url)
	}
	_, err := OpenURL(t.Context(), "memory://?retention=-1s")
	require.PanicsWithValue(t, "memlease: "+err.Error(), func() { New(Options{Retention: -time.Second}) })
}

func TestOpenURLObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := OpenURL(ctx, "memory://")
	require.ErrorIs(t, err, context.Canceled)
}
