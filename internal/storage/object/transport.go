package object

import (
	"net"
	"net/http"
	"time"
)

const (
	// maxConns bounds the open connections of one store.
	maxConns = 64
	// answerIn is how long the server may think after it has the whole request.
	answerIn = 2 * time.Minute
	// dialIn is how long a connection may take.
	dialIn = 10 * time.Second
)

// Transport makes the HTTP requests of a store: by the environment's proxies, within the limits of Limit and LimitDialer.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	d := &net.Dialer{KeepAlive: 30 * time.Second}
	LimitDialer(d)
	t.DialContext = d.DialContext
	Limit(t)
	return t
}

// Limit bounds the connections of a client that has its own transport, and how long it waits for an answer.
func Limit(t *http.Transport) {
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = maxConns, maxConns
	t.ResponseHeaderTimeout = answerIn
}

// LimitDialer bounds how long such a client waits for a connection.
func LimitDialer(d *net.Dialer) { d.Timeout = dialIn }
