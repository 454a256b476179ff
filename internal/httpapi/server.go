package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"tidemark/indexer/follow"
	"tidemark/internal/config"
	"tidemark/search"
)

// Config is what the server works with. Follower is required.
type Config struct {
	Follower *follow.Follower
	// Metrics answers /metrics. Defaults to nothing: 404.
	Metrics http.Handler
	// Searches is told of each search. Defaults to nobody.
	Searches search.Observer
	// Cache keeps clusters of all tables between searches. Defaults to one of the default size.
	Cache *search.Cache
	// Secret must come with whatever is more than a look at states. Without one such requests are taken from this machine only.
	Secret config.Secret
	// BodyLimit is the largest body, in bytes. Defaults to 16 MiB.
	BodyLimit int64
	// Rate is how many requests a second are served, twice as many at once. Defaults to 100.
	Rate int
	// MaxWait is the longest time that a request may wait. Defaults to 10 minutes.
	MaxWait time.Duration
	// Log is told of requests that are refused. Defaults to nobody.
	Log *slog.Logger
}

// Routes whose body is their own.
const (
	callbackRoute = "POST /v1/callback"
	searchRoute   = "POST /v1/tables/{t}/search"
)

// maxWaiters bounds the requests that wait for coverage at once.
const maxWaiters = 1000

// Server answers requests. It is safe for concurrent use.
type Server struct {
	cfg      Config
	handler  http.Handler
	bucket   *bucket
	waiters  chan struct{} // a token is held for each request that waits
	searches chan struct{} // a token is held for each search

	mu        sync.Mutex        // guards what follows
	refusedAt time.Time         // when a wrong secret was logged last; guarded by mu
	readers   map[string]reader // by the name that requests use
	callbacks map[string]int64  // that were no hints, by what was wrong
}

var _ http.Handler = (*Server)(nil)

// New returns a server that is not listening yet.
func New(cfg Config) *Server {
	cfg.BodyLimit = cmp.Or(cfg.BodyLimit, 16<<20)
	cfg.Rate = cmp.Or(cfg.Rate, 100)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 10*time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Cache == nil {
		cfg.Cache = search.NewCache(0)
	}
	s := &Server{cfg: cfg, bucket: &bucket{rate: float64(cfg.Rate), most: 2 * float64(cfg.Rate)}, waiters: make(chan struct{}, maxWaiters),
		searches: make(chan struct{}, maxSearches), readers: map[string]reader{}, callbacks: map[string]int64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /metrics", s.metrics)
	open := func(pattern string, h answer, keys ...string) { mux.HandleFunc(pattern, s.limited(asking(h, keys...))) }
	closed := func(pattern string, h answer, keys ...string) {
		mux.HandleFunc(pattern, s.limited(s.trusted(asking(h, keys...))))
	}
	open("GET /v1/tables", s.tables)
	open("GET /v1/tables/{t}", s.table)
	open("GET /v1/tables/{t}/status", s.bounded(s.status))
	open("GET /v1/tables/{t}/markers", s.bounded(s.markers), "last", "index")
	open("GET /v1/tables/{t}/wait", s.wait, "covers", "timeout", "index")
	closed("POST /v1/tables/{t}/pause", s.bounded(s.pause))
	closed("POST /v1/tables/{t}/resume", s.bounded(s.resume))
	closed("POST /v1/tables/{t}/retry", s.bounded(s.retry), "instant")
	closed("POST /v1/tables/{t}/skip", s.bounded(s.skip), "instant", "reason")
	closed(searchRoute, s.search, "timeout")
	mux.HandleFunc(callbackRoute, s.limited(s.counted(s.trusted(asking(s.callback, "wait", "timeout", "index")))))
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("/", s.elsewhere(mux))
	guard := http.NewCrossOriginProtection() // a page of another site must not act in a visitor's name
	guard.SetDenyHandler(s.limited(func(*http.Request) (int, any, error) {
		return 0, nil, bad(http.StatusForbidden, "open the page of this server, or use a program", "a page of another site asked for this")
	}))
	s.handler = guard.Handler(mux)
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	s.handler.ServeHTTP(w, r)
}

// Serve answers requests at a listener, which it closes, until ctx ends; requests under way get a moment to end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Requests that wait are told that the daemon ends.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler: s, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: s.cfg.MaxWait + time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	cancel()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	err := server.Shutdown(end)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
