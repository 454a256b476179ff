package table

// Gone returns the paths of the files that commits name and that are not there: cleaned, or lost. The map is the caller's.
func (f *Files) Gone() map[string]bool {
	gone := map[string]bool{}
	for _, x := range f.groups {
		for _, files := range [][]*File{x.bases, x.logs} {
			for _, file := range files {
				if !file.Present {
					gone[file.Path] = true
				}
			}
		}
	}
	return gone
}
