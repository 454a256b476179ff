package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"tidemark/internal/config"
	"tidemark/internal/testkit"
)

type service struct {
	Image       string
	Build       *struct{ Context string }
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	DependsOn   yaml.Node `yaml:"depends_on"`
	Restart     string
	User        string
	Healthcheck *struct {
		Test                       []string
		Interval, Timeout, Retries string
	}
	StopGracePeriod string `yaml:"stop_grace_period"`
}

type compose struct {
	Name     string
	Services map[string]service
	Volumes  map[string]struct{}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decode reads YAML; keys that are not known are errors.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(read(t, name)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func stack(t *testing.T) compose {
	t.Helper()
	var c compose
	decode(t, "docker-compose.yml", &c)
	if len(c.Services) == 0 {
		t.Fatal("no services")
	}
	return c
}

// needs are the services that one depends on.
func (s service) needs() []string {
	var out []string
	for i, n := range s.DependsOn.Content {
		if s.DependsOn.Kind == yaml.SequenceNode || i%2 == 0 {
			out = append(out, n.Value)
		}
	}
	return out
}

func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[a-z0-9/-]+:v?\d+\.\d+[a-z0-9.-]*$`)
	for name, s := range stack(t).Services {
		if s.Build != nil {
			if s.Image != "tidemark:local" || s.Build.Context != "." {
				t.Errorf("%s: image %q, built from %q", name, s.Image, s.Build.Context)
			}
			continue
		}
		if !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
	}
	for _, line := range strings.Split(string(read(t, "Dockerfile")), "\n") {
		image, from := strings.CutPrefix(line, "FROM ")
		if image, _, _ = strings.Cut(image, " AS "); from && image != "scratch" && !pinned.MatchString(image) {
			t.Errorf("Dockerfile: image %q has no version", image)
		}
	}
}

func TestMountsAndNamesAreThere(t *testing.T) {
	t.Parallel()
	c := stack(t)
	ports := map[string]string{}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			parts := strings.Split(v, ":")
			if local, is := strings.CutPrefix(parts[0], "./"); is {
				if _, err := os.Stat(filepath.Join(testkit.Root(), local)); err != nil {
					t.Errorf("%s mounts %s: %v", name, v, err)
				}
				if len(parts) != 3 || parts[2] != "ro" {
					t.Errorf("%s mounts %s so that it can be written", name, v)
				}
			} else if _, ok := c.Volumes[parts[0]]; !ok {
				t.Errorf("%s mounts %s, which is no volume", name, v)
			}
		}
		for _, n := range s.needs() {
			if _, ok := c.Services[n]; !ok {
				t.Errorf("%s needs %s, which is no service", name, n)
			}
		}
		for _, p := range s.Ports {
			host, _, _ := strings.Cut(p, ":")
			if ports[host] != "" {
				t.Errorf("%s and %s take port %s", name, ports[host], host)
			}
			ports[host] = name
		}
	}
	for _, name := range []string{"kafka", "store", "writer", "tidemark", "prometheus", "grafana"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("no service %s", name)
		}
	}
	// Hosts that the parts know each other by.
	host := regexp.MustCompile(`(?:http://|"|@)([a-z]+):\d{4}\b`)
	for _, file := range []string{"deploy/stack/tidemark.yaml", "deploy/stack/prometheus.yml", "deploy/stack/grafana-datasource.yml", "docker-compose.yml"} {
		for _, m := range host.FindAllStringSubmatch(string(read(t, file)), -1) {
			if _, ok := c.Services[m[1]]; !ok && m[1] != "localhost" {
				t.Errorf("%s names %s, which is no service", file, m[1])
			}
		}
	}
}

// mount returns the file in this repository that a service sees at a path.
func mount(t *testing.T, s service, at string) string {
	t.Helper()
	for _, v := range s.Volumes {
		if parts := strings.Split(v, ":"); parts[1] == at {
			return strings.TrimPrefix(parts[0], "./")
		}
	}
	t.Fatalf("nothing is mounted at %s", at)
	return ""
}

func TestPartsFitEachOther(t *testing.T) {
	t.Parallel()
	c := stack(t)
	// The daemon's configuration is one that it takes.
	command := c.Services["tidemark"].Command
	file := mount(t, c.Services["tidemark"], command[slices.Index(command, "--config")+1])
	l, err := config.Load(config.Input{File: filepath.Join(testkit.Root(), file)})
	if err != nil {
		t.Fatal(err)
	}
	writer := string(read(t, mount(t, c.Services["writer"], "/stack/writer.py")))
	for _, setting := range []string{"on': 'true'", "class': os.environ.get('CALLBACK', 'org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback')",
		"kafka.bootstrap.servers': os.environ['BROKER']", "kafka.topic': '" + l.Sources.Kafka.Topic + "'", "kafka.acks': 'all'", "kafka.retries': '3'"} {
		if !strings.Contains(writer, "'hoodie.write.commit.callback."+setting) {
			t.Errorf("the writer lacks hoodie.write.commit.callback.%s", setting)
		}
	}
	if broker := c.Services["writer"].Environment["BROKER"]; !slices.Contains(l.Sources.Kafka.Brokers, broker) {
		t.Errorf("the writer calls back to %s, tidemark reads at %v", broker, l.Sources.Kafka.Brokers)
	}
	if !strings.Contains(writer, "PATH = os.environ.get('TABLE', '"+l.Tables[0].Aliases[0]+"')") || !strings.Contains(writer, "'embedding'") ||
		!slices.Contains(c.Services["index"].Command, l.Tables[0].Path) {
		t.Error("writer, index and daemon do not mean the same table")
	}
	for _, name := range []string{"index", "tidemark", "writer"} {
		env := c.Services[name].Environment
		if env["AWS_ACCESS_KEY_ID"] != c.Services["store"].Environment["ROOT_ACCESS_KEY"] || env["AWS_SECRET_ACCESS_KEY"] != c.Services["store"].Environment["ROOT_SECRET_KEY"] {
			t.Errorf("%s has other keys than the store", name)
		}
	}
	// Prometheus reads our rules and our page, Grafana has the board.
	var prometheus struct {
		Global  map[string]string
		Rules   []string `yaml:"rule_files"`
		Scrapes []struct {
			Job    string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	p := c.Services["prometheus"]
	decode(t, mount(t, p, "/etc/prometheus/prometheus.yml"), &prometheus)
	if got := mount(t, p, prometheus.Rules[0]); got != "deploy/prometheus/tidemark.rules.yml" {
		t.Errorf("the rules are %s", got)
	}
	_, port, _ := strings.Cut(l.HTTP.Address, ":")
	if got := prometheus.Scrapes[0].Static[0].Targets; !slices.Equal(got, []string{"tidemark:" + port}) {
		t.Errorf("Prometheus scrapes %v, the daemon serves at %s", got, l.HTTP.Address)
	}
	var boards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	g := c.Services["grafana"]
	decode(t, mount(t, g, "/etc/grafana/provisioning/dashboards/tidemark.yml"), &boards)
	if got := mount(t, g, boards.Providers[0].Options.Path+"/tidemark.json"); got != "deploy/grafana/tidemark.json" {
		t.Errorf("the board is %s", got)
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := string(read(t, "Dockerfile"))
	for _, line := range []string{"FROM scratch\n", "\nUSER 65532:65532\n", "ca-certificates.crt", "make build", "\nENTRYPOINT [\"/tidemark\"]\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("Dockerfile lacks %q", line)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(read(t, "go.mod")))
	if !strings.Contains(text, "FROM golang:"+version[1]) {
		t.Errorf("Dockerfile builds with another Go than %s", version[1])
	}
	ignored := string(read(t, ".dockerignore"))
	if !strings.Contains(ignored, "!fixtures/tables/demo_words.tar.gz\n") {
		t.Error("the demo's table, which is in the binary, is not among what is built from")
	}
}

func TestWriterIsPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", "import ast,sys; ast.parse(sys.stdin.read())")
	cmd.Stdin = bytes.NewReader(read(t, "deploy/stack/writer.py"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("writer.py: %v\n%s", err, out)
	}
}
