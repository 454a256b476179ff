package basefile

// ForgetIndexes makes the file look as if its writer had made no offset indexes.
func (f *File) ForgetIndexes() {
	for i := range f.groups {
		for j := range f.groups[i].chunks {
			f.groups[i].chunks[j].indexSize = 0
		}
	}
}
