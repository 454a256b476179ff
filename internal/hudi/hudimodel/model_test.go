package hudimodel_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/testkit"
)

// profile is a family of histories.
type profile struct {
	name                   string
	cfg                    hudimodel.Config
	overlap, clean, copies bool
}

var profiles = []profile{
	{name: "cow", cfg: hudimodel.Config{}},
	{name: "cow event time", cfg: hudimodel.Config{EventTime: true}},
	{name: "mor", cfg: hudimodel.Config{MoR: true}},
	{name: "mor event time", cfg: hudimodel.Config{MoR: true, EventTime: true}},
	{name: "overlap", cfg: hudimodel.Config{MoR: true}, overlap: true},
	{name: "overlap event time", cfg: hudimodel.Config{MoR: true, EventTime: true}, overlap: true},
	{name: "cow cleaned", cfg: hudimodel.Config{}, clean: true},
	{name: "upgraded", cfg: hudimodel.Config{MoR: true, Upgraded: true}, clean: true},
	{name: "cow copies", cfg: hudimodel.Config{}, copies: true},
	{name: "mor copies", cfg: hudimodel.Config{MoR: true}, copies: true},
	{name: "mor cleaned", cfg: hudimodel.Config{MoR: true, EventTime: true}, clean: true},
}

// histories is the number of histories of each profile: TIDEMARK_HISTORIES, or ten thousand in all in long runs.
func histories(tb testing.TB) int {
	n := 30
	if testkit.Race {
		n = 3
	}
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		n = 1000
	}
	if text := os.Getenv("TIDEMARK_HISTORIES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			tb.Fatal(err)
		}
	}
	return n
}

// TestModel follows random histories and compares classes, postings and verify with a naive model after every sync.
func TestModel(t *testing.T) {
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(histories(t)), "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) { p.run(t, rt) })
		})
	}
}

func (p profile) run(t *testing.T, rt *rapid.T) {
	cfg := p.cfg
	cfg.Element = rapid.SampledFrom([]avrox.Element{avrox.ElementFloat, avrox.ElementDouble, avrox.ElementInt8}).Draw(rt, "element")
	cfg.Dim = rapid.IntRange(2, 4).Draw(rt, "dim")
	cfg.Version = rapid.SampledFrom([]int{9, 8}).Draw(rt, "version")
	cfg.Marker = rapid.Bool().Draw(rt, "marker")
	seldom := func(what string) bool { return rapid.IntRange(0, 3).Draw(rt, what) == 3 }
	cfg.Second, cfg.Composite, cfg.CDC = seldom("second"), seldom("composite"), seldom("cdc")
	cfg.TwoOrderings, cfg.Nulls = cfg.EventTime && seldom("two orderings"), cfg.EventTime && seldom("nulls")
	cfg.Virtual = !p.copies && seldom("virtual") // of copies without commit times nobody can say which one was written last
	w := hudimodel.New(t, cfg)
	g := hudimodel.NewGenerator(w, rt)
	g.Overlap, g.Clean, g.Copies = p.overlap, p.clean, p.copies
	h := follow(t.Context(), rt, w)
	metric := rapid.SampledFrom([]string{"l2", "cosine", "dot_product"}).Draw(rt, "metric")
	options := map[string]string{"vector.metric": metric, "vector.num_clusters": fmt.Sprint(rapid.IntRange(1, 4).Draw(rt, "clusters")),
		"vector.rabitq.bits": fmt.Sprint(rapid.SampledFrom([]int{4, 1, 2, 8}).Draw(rt, "bits"))}
	if p.copies {
		options["tidemark.on_duplicate_key"] = "last_wins"
	}
	pace := rapid.SampledFrom([]string{"each", "pauses", "end", "chunks"}).Draw(rt, "pace")
	first := rapid.IntRange(1, 6).Draw(rt, "first")
	steps := first + rapid.IntRange(0, 8).Draw(rt, "steps")
	for i := range steps {
		g.Step()
		if i+1 < first {
			continue
		}
		if !h.index {
			if at := h.readable(); len(at) > 0 && (i+1 == first || pace != "end") {
				h.create(rapid.SampledFrom(at).Draw(rt, "as of"), options)
			}
			continue
		}
		switch {
		case pace == "each":
			h.sync(0, false)
		case pace == "pauses" && rapid.Bool().Draw(rt, "sync"):
			h.sync(rapid.IntRange(0, 2).Draw(rt, "instants"), false)
		}
	}
	if rapid.Bool().Draw(rt, "settle") {
		g.End()
	}
	if pace == "chunks" {
		h.catchUp(rapid.IntRange(1, 3).Draw(rt, "chunk"))
	}
	h.sync(0, true)
}
