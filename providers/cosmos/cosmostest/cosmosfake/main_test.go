package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItPrintsAURLThatOpens(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, nil, w) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	p, err := cosmoslease.OpenURL(t.Context(), strings.TrimSpace(line))
	require.NoError(t, err)
	_, err = p.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: abstractions.NewID(), Owner: "o", TTL: abstractions.Infinite})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	stop()
	require.NoError(t, <-ended)
}

func TestItRefusesWhatCannotWork(t *testing.T) {
	for _, args := range [][]string{{"-nothing"}, {"-listen", "nowhere"}} {
		require.Error(t, run(t.Context(), args, io.Discard), args)
	}
}
