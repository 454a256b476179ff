package search

import (
	"encoding/json"
	"reflect"
	"testing"
)

// What an answer says it did has all counts by their names, and the stale crowding rate.
func TestStatsJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stats Stats
		want  float64
	}{{Stats{}, 0}, {Stats{Candidates: 8, Dead: 1, Moved: 3, Rounds: 2}, 0.5}, {Stats{Candidates: 4, Dead: 4}, 1}, {Stats{Candidates: 5, Copied: 2}, 0}} {
		text, err := json.Marshal(Answer{Stats: c.stats})
		var got struct{ Stats map[string]float64 }
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if rate, ok := got.Stats["stale_crowding_rate"]; err != nil || !ok || rate != c.want {
			t.Errorf("%+v: got %v, %v in %s, want %v", c.stats, rate, err, text, c.want)
		}
		v := reflect.ValueOf(c.stats)
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("json")
			if n, ok := got.Stats[name]; !ok || n != float64(v.Field(i).Int()) {
				t.Errorf("%s: got %v in %s", name, n, text)
			}
		}
		if len(got.Stats) != v.NumField()+1 {
			t.Errorf("more names than counts and the rate in %s", text)
		}
		var again Answer
		if err := json.Unmarshal(text, &again); err != nil || again.Stats != c.stats {
			t.Errorf("read back: got %+v, %v", again.Stats, err)
		}
	}
}
