// Package httpapi is the daemon's HTTP server: health, what is known of the tables, questions and operator's decisions about them, the
// commit callbacks of writers, and a page for people.
//
// It owns routes, JSON forms, who may do what, and the bounds of a request. It refuses to know how a table is followed: it asks a
// follow.Follower. It may import indexer, indexer/follow, coverage, search and what is below. Its one invariant: a request is never
// believed; a callback only wakes a table's loop.
package httpapi
