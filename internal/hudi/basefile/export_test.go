package basefile

import "github.com/parquet-go/parquet-go/format"

// ForgetIndexes makes the file look as if its writer had made no offset indexes.
func (f *File) ForgetIndexes() {
	for i := range f.groups {
		for j := range f.groups[i].chunks {
			f.groups[i].chunks[j].indexSize = 0
		}
	}
}

// ForgetPages takes all pages but the first of each chunk out of the offset indexes, which were read, as a damaged file might.
func (f *File) ForgetPages() {
	for i := range f.groups {
		for j := range f.groups[i].chunks {
			if locs := f.groups[i].chunks[j].index.Load(); locs != nil {
				first := (*locs)[:1]
				f.groups[i].chunks[j].index.Store(&first)
			}
		}
	}
}

// Place is the place of a row among the values of a page of which levels says, a byte a row, what is not null.
func Place(levels []byte, row int) (int, bool) { return newPresence(levels).place(row) }

// Present is the number of values of such a page, Words what is kept of it.
func Present(levels []byte) int { return newPresence(levels).values(len(levels)) }

// Words is how many words are kept of such a page.
func Words(levels []byte) int { return len(newPresence(levels)) }

// SayCompressed makes the chunks of the file say that their pages are compressed. Pages of version 2 that were stored as they are say so themselves.
func (f *File) SayCompressed() {
	for i := range f.groups {
		for j := range f.groups[i].chunks {
			f.groups[i].chunks[j].codec = format.Snappy
		}
	}
}
