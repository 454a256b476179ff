package timeline

import (
	"fmt"
	"strings"
	"time"

	"tidemark/internal/storage"
)

const (
	instantLayout = "20060102150405"
	// maxZoneOffset and zoneStep: no place is further from UTC than 14 h, no zone has an offset finer than 15 minutes.
	// Beyond 18 h the modification time says nothing: the table was copied or its files were stamped.
	maxZoneOffset = 18 * time.Hour
	zoneStep      = 15 * time.Minute
)

// AddMillis returns the instant text n milliseconds after t, as a calendar without zones or summer time: …59999 + 1 ms is the
// next minute. t has 14 or 17 digits; 14 digits stand for the last millisecond of their second, as in Hudi. The result has
// 17 digits. Times of the metadata table's reserved range are no calendar times and refused (storage.ErrUnsupported).
func AddMillis(t string, n int) (string, error) {
	at, err := InstantTime(t, time.UTC)
	if err != nil || len(t) > 17 {
		return "", fmt.Errorf("add %d ms to instant %q: not a calendar time: %w", n, t, storage.ErrUnsupported)
	}
	at = at.Add(time.Duration(n) * time.Millisecond)
	if at.Year() < 1 || at.Year() > 9999 {
		return "", fmt.Errorf("add %d ms to instant %q: leaves the calendar: %w", n, t, storage.ErrUnsupported)
	}
	return format(at), nil
}

// InstantTime returns the moment an instant text names in that zone. It serves to show seconds; instants are ordered as
// texts. Digits after the 17th (suffixes of old metadata tables) are ignored.
func InstantTime(t string, zone *time.Location) (time.Time, error) {
	if len(t) < 14 || strings.Trim(t, "0123456789") != "" {
		return time.Time{}, fmt.Errorf("read instant %q: not 14 or 17 digits: %w", t, storage.ErrUnsupported)
	}
	at, err := time.ParseInLocation(instantLayout, t[:14], zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("read instant %q: not a calendar time: %w", t, storage.ErrUnsupported)
	}
	millis := 999
	if len(t) >= 17 {
		millis = int(t[14]-'0')*100 + int(t[15]-'0')*10 + int(t[16]-'0')
	}
	return at.Add(time.Duration(millis) * time.Millisecond), nil
}

func format(t time.Time) string {
	return t.Format(instantLayout) + fmt.Sprintf("%03d", t.Nanosecond()/int(time.Millisecond))
}

// ZoneOffset derives the offset of a table's instant texts from UTC (positive east of Greenwich) from the newest instant and
// its file's modification time, rounded to 15 minutes. It is unknown (false) when there is no modification time, the text
// is no calendar time, or the two are more than 18 hours apart.
func ZoneOffset(newest Instant) (offset time.Duration, known bool) {
	text := newest.Completed
	if text == "" || newest.Derived {
		text = newest.Requested
	}
	at, err := InstantTime(text, time.UTC)
	if err != nil || newest.ModTime.IsZero() {
		return 0, false
	}
	offset = at.Sub(newest.ModTime).Round(zoneStep)
	if offset > maxZoneOffset || offset < -maxZoneOffset {
		return 0, false
	}
	return offset, true
}
