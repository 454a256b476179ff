package httpapi_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/internal/httpapi"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
	"tidemark/timeline"
)

// chromium is the browser: the one that TIDEMARK_CHROMIUM names, or one that is installed.
func chromium(t *testing.T) string {
	if p := os.Getenv("TIDEMARK_CHROMIUM"); p != "" {
		return p
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	t.Skip("no browser: install Chromium, or say where it is with TIDEMARK_CHROMIUM")
	return ""
}

// replayed is a recorded table with an index, whose later commits come at the times at which they were made.
type replayed struct {
	st   *mem.Store
	held []timeline.Instant // to come, in the order of their completion
	kept map[string][]byte  // their files
}

// replay holds back all data writes of a recorded table but the first one that can be read and some more, and makes an index as of that one.
func replay(t *testing.T, name string, column string, more int) *replayed {
	t.Helper()
	st, err := mem.FromDir(name, testkit.Table(t, name))
	if err != nil {
		t.Fatal(err)
	}
	r := &replayed{st: st, kept: map[string][]byte{}}
	p := mdt.Inside(st)
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	at, err := tb.EarliestReadable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tb.Timeline.Writes() {
		if w.Requested > at {
			r.held = append(r.held, w)
		}
	}
	slices.SortFunc(r.held, func(a, b timeline.Instant) int { return cmp.Compare(a.Completed, b.Completed) })
	r.held = r.held[min(more, len(r.held)):]
	for _, w := range r.held {
		for _, f := range st.Paths() {
			if path.Dir(f) == ".hoodie/timeline" && strings.HasPrefix(path.Base(f), w.Requested) {
				if r.kept[f], _, err = st.ReadFile(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				if err := st.Delete(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if tb, err = table.Open(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: sink.Config{Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	options, err := generation.ParseOptions(map[string]string{"vector.num_clusters": "3"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := generation.Create(t.Context(), tb, c, generation.CreateRequest{Column: column, AsOf: at, Options: options, Place: p}); err != nil {
		t.Fatal(err)
	}
	return r
}

// come lets the next commit happen.
func (r *replayed) come(t *testing.T) {
	for f, b := range r.kept {
		if strings.HasPrefix(path.Base(f), r.held[0].Requested) {
			if _, err := r.st.Create(t.Context(), f, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.held = r.held[1:]
}

// clock is when an instant of a table in UTC was.
func clock(t *testing.T, instant string) time.Time {
	t.Helper()
	at, err := time.Parse("20060102150405.000", instant[:14]+"."+instant[14:])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// somePage is the page for five tables in several states: one of them was paused for a while, while commits came.
func somePage(t *testing.T) *httptest.ResponseRecorder {
	orders, photos, archive := replay(t, "mor_basic", "embedding", 0), replay(t, "mor_compaction_clean", "embedding", 3), replay(t, "cow_basic", "embedding", 100)
	stores := map[string]*mem.Store{"orders": orders.st, "photos": photos.st, "archive": archive.st}
	broken, err := mem.FromDir("v6", testkit.Table(t, "v6"))
	if err != nil {
		t.Fatal(err)
	}
	stores["legacy"] = broken
	if _, err := indexer.Pause(t.Context(), mdt.Inside(photos.st)); err != nil {
		t.Fatal(err)
	}
	var out *httptest.ResponseRecorder
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(clock(t, orders.held[0].Requested)))
		f, err := follow.New(follow.Config{Interval: 5 * time.Second, Look: 5 * time.Second, Open: func(_ context.Context, c follow.TableConfig) (mdt.Place, error) {
			if st := stores[c.Name]; st != nil {
				return mdt.Inside(st), nil
			}
			return mdt.Place{}, &storage.Error{Op: "open", Path: c.URL, Err: storage.ErrNotFound}
		}}, []follow.TableConfig{{Name: "archive", URL: "s3://lake/tables/archive"}, {Name: "legacy", URL: "s3://lake/tables/legacy"},
			{Name: "orders", URL: "s3://lake/tables/orders"}, {Name: "photos", URL: "s3://lake/tables/photos"},
			{Name: "tomorrow", URL: "s3://lake/a/long/path/that/has/no/place/to/be/broken/" + strings.Repeat("abcdefghij", 6)}})
		if err != nil {
			t.Fatal(err)
		}
		s := httpapi.New(httpapi.Config{Follower: f})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		place := mdt.Inside(orders.st)
		for n := 0; len(orders.held) > 0; n++ {
			time.Sleep(time.Until(clock(t, orders.held[0].Completed)))
			orders.come(t)
			change := indexer.Pause
			switch n {
			case 2:
			case 5:
				change = indexer.Resume
			default:
				continue
			}
			if _, err := change(t.Context(), place); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(13 * time.Second)
		synctest.Wait()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:7427"
		out = httptest.NewRecorder()
		s.ServeHTTP(out, r)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return out
}

// look is what the browser says of a page.
type look struct {
	Scroll, Inner float64  // width of what there is, and of the window
	Beyond        []string // elements that reach beyond the window
	Small         []string // texts smaller than 12 pixels
	Articles      int
	Colours       int     // different ones of the tables' states
	Chart         float64 // area of the largest chart's line
	Title         string
}

const looking = `(() => {
  const all = [...document.body.querySelectorAll('*')], wide = document.documentElement.clientWidth;
  const name = e => e.tagName + ': ' + (e.textContent || '').trim().slice(0, 40);
  const boxes = [...document.querySelectorAll('polyline')].map(e => e.getBoundingClientRect());
  return {
    Scroll: document.documentElement.scrollWidth, Inner: wide, Title: document.title,
    Beyond: all.filter(e => e.getBoundingClientRect().right > wide + 1).map(name),
    Small: all.filter(e => e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 12).map(name),
    Articles: document.querySelectorAll('article').length,
    Colours: new Set([...document.querySelectorAll('.state')].map(e => getComputedStyle(e).color)).size,
    Chart: Math.max(0, ...boxes.map(b => b.width * b.height)),
  };
})()`

// TIDEMARK_PAGE_PNG names a file for a picture of the page: docs/page.png is made so.
func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	browser := chromium(t)
	page := somePage(t)
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		for k, v := range page.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(page.Code)
		_, _ = w.Write(page.Body.Bytes())
	}))
	defer served.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(browser), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	var mu sync.Mutex
	var asked, said []string
	if err := chromedp.Listen(ctx, func(e any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := e.(type) {
		case *network.EventRequestWillBeSent:
			asked = append(asked, e.Request.URL)
		case *log.EventEntryAdded:
			said = append(said, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{320, 390, 800, 1100} {
		var mobile []chromedp.EmulateViewportOption
		if width < 500 {
			mobile = append(mobile, chromedp.EmulateMobile, chromedp.EmulatePortrait)
		}
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900, mobile...), chromedp.Navigate(served.URL+"/")); err != nil {
			t.Fatal(err)
		}
		got, err := chromedp.Run(ctx, chromedp.Evaluate[look](looking))
		if err != nil {
			t.Fatal(err)
		}
		if got.Inner != float64(width) || got.Scroll > got.Inner || len(got.Beyond) > 0 || len(got.Small) > 0 {
			t.Errorf("at %d pixels: %+v", width, got)
		}
		if got.Articles != 5 || got.Colours < 3 || got.Chart <= 0 || !strings.Contains(got.Title, "fresh") {
			t.Errorf("at %d pixels something is not shown: %+v", width, got)
		}
		if file := os.Getenv("TIDEMARK_PAGE_PNG"); file != "" && width == 1100 {
			picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			if err == nil {
				err = os.WriteFile(file, picture, 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) < 4 {
		t.Errorf("the browser asked for %v only: nothing was watched", asked)
	}
	for _, url := range asked {
		if !strings.HasPrefix(url, served.URL+"/") {
			t.Errorf("the page asks for %s", url)
		}
	}
	for _, s := range said {
		if !strings.Contains(s, "/favicon.ico") {
			t.Errorf("the browser says: %s", s)
		}
	}
}
