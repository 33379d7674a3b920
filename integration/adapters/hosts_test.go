package adapters_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/pressly/goose/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/distributedleasing/leasing"
	certmagiclease "github.com/distributedleasing/leasing/adapters/certmagic"
	ctrllease "github.com/distributedleasing/leasing/adapters/controllerruntime"
	gocronlease "github.com/distributedleasing/leasing/adapters/gocron"
	gooselease "github.com/distributedleasing/leasing/adapters/goose"
)

// hosts are programs that use the host projects of the adapters. Each program calls the function
// work under the host's lock.
var hosts = map[string]func(ctx context.Context, m *leasing.Manager, folder string, work func(context.Context)) error{
	"goose": migrate, "certmagic": obtain, "gocron-elector": elect, "gocron-locker": lock, "controller-runtime": control,
}

func migrate(ctx context.Context, m *leasing.Manager, folder string, work func(context.Context)) error {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(folder, "app.db"))
	if err != nil {
		return err
	}
	locker := gooselease.New(m, "app/migrate")
	ctx, stop := locker.Context(ctx)
	defer stop()
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(locker),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
			work(ctx)
			return ctx.Err()
		}}, nil)))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// issuer signs each certificate with a key of its own.
type issuer struct{ work func(context.Context) }

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.work(ctx)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: request.DNSNames, NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, key)
	var text bytes.Buffer
	if err == nil {
		err = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return &certmagic.IssuedCertificate{Certificate: text.Bytes()}, err
}

func obtain(ctx context.Context, m *leasing.Manager, folder string, work func(context.Context)) error {
	var cache *certmagic.Cache
	cache = certmagic.NewCache(certmagic.CacheOptions{
		Logger: zap.NewNop(),
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) {
			return certmagic.New(cache, certmagic.Config{}), nil
		},
	})
	config := certmagic.New(cache, certmagic.Config{
		Storage: certmagiclease.New(&certmagic.FileStorage{Path: filepath.Join(folder, "certificates")}, m, "tls/"),
		Issuers: []certmagic.Issuer{issuer{work}},
		Logger:  zap.NewNop(),
	})
	return config.ObtainCertAsync(ctx, "example.com")
}

func elect(ctx context.Context, m *leasing.Manager, _ string, work func(context.Context)) error {
	elector, err := gocronlease.NewElector(m, "app/scheduler")
	if err != nil {
		return err
	}
	go elector.Run(ctx)
	return schedule(ctx, work, gocron.WithDistributedElector(elector))
}

func lock(ctx context.Context, m *leasing.Manager, _ string, work func(context.Context)) error {
	return schedule(ctx, work, gocron.WithDistributedLocker(&gocronlease.Locker{Manager: m, Prefix: "app/job/"}))
}

func schedule(ctx context.Context, work func(context.Context), option gocron.SchedulerOption) error {
	scheduler, err := gocron.NewScheduler(option)
	if err != nil {
		return err
	}
	if _, err := scheduler.NewJob(gocron.DurationJob(100*time.Millisecond), gocron.NewTask(work, ctx), gocron.WithName("tick")); err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown()
}

// control runs a controller-runtime manager. It sends no request to its API server, which does
// not exist.
func control(ctx context.Context, m *leasing.Manager, _ string, work func(context.Context)) error {
	host, _ := os.Hostname()
	retry, deadline, duration := time.Second, 3*time.Second, 6*time.Second
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: ctrllease.New(m, "app/controllers", host+"/"+m.Capabilities().Provider+time.Now().String()),
		RetryPeriod:                         &retry,
		RenewDeadline:                       &deadline,
		LeaseDuration:                       &duration,
		Metrics:                             metrics.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		work(ctx)
		return nil
	}))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
