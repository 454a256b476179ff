package coverage

import (
	"context"
	"fmt"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// listDir lists a directory; one that is not there is empty.
func listDir(ctx context.Context, st storage.Store, dir string) ([]storage.Info, error) {
	infos, err := st.List(ctx, dir)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return infos, nil
}

// missingFile returns the first file of an index that is not in the listing of its directory with its size.
func missingFile(place mdt.Place, files []mdt.DataFile, dir []storage.Info) (string, bool) {
	sizes := make(map[string]int64, len(dir))
	for _, info := range dir {
		sizes[info.Path] = info.Size
	}
	for _, f := range files {
		if size, ok := sizes[place.File(f.Path)]; !ok || size != f.Size {
			return f.Path, true
		}
	}
	return "", false
}
