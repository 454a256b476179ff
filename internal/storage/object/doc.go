// Package object makes a storage.Store of an object store: directories are implied by names, versions are the store's own.
//
// It owns what all object stores share: names, paging, exact ranges, conditional puts, streamed content, and what an HTTP
// status or a broken connection means. It refuses to know a provider's API: packages s3, gs and azblob are its Clients. It does
// not try anything again. It may import storage only.
//
// Invariant: every write is one conditional put. There is no multipart upload, and no write without a precondition.
package object
