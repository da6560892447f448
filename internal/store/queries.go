package store

// Page is one page of a list. Next is an opaque cursor, "" at the end.
type Page[T any] struct {
	Items []T
	Next  string
}

// Paging is what a caller asks for.
type Paging struct {
	Limit  int    // 0: 50; more than 500: fault malformed
	Cursor string // fault malformed if tampered with, or of another list or order
}
