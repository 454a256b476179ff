package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"tidemark/internal/config"
)

// The unit is one that systemd takes, where systemd is, and says what the daemon needs.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text := string(read(t, "deploy/systemd/tidemark.service"))
	for _, line := range []string{"Type=notify", "ExecStart=/usr/local/bin/tidemark follow --config ", "ExecReload=/bin/kill -HUP $MAINPID", "TimeoutStartSec=infinity", "TimeoutStopSec=15"} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("the unit lacks %q", line)
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if line != "" && !regexp.MustCompile(`^(#.*|\[[A-Z][a-z]+\]|[A-Z][A-Za-z]+=.*)$`).MatchString(line) {
			t.Errorf("line %d of the unit is %q", i+1, line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze: the unit is not verified by systemd")
	}
	// Verifying wants the program to be there.
	file := filepath.Join(t.TempDir(), "tidemark.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/local/bin/tidemark ", "/bin/true ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || bytes.Contains(out, []byte("tidemark.service")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

type named struct {
	Name   string
	Labels map[string]string
}

type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type volume struct {
	Name      string
	ConfigMap *named `yaml:"configMap"`
	EmptyDir  *struct {
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
}

type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   named
	Spec       struct {
		Replicas int
		Selector selector
		Template struct {
			Metadata named
			Spec     struct {
				Grace      int64 `yaml:"terminationGracePeriodSeconds"`
				Security   any   `yaml:"securityContext"`
				Containers []struct {
					Name, Image string
					Args        []string
					EnvFrom     []struct {
						SecretRef struct{ Name string } `yaml:"secretRef"`
					} `yaml:"envFrom"`
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name string
						Port int `yaml:"containerPort"`
					}
					Liveness     probe `yaml:"livenessProbe"`
					Readiness    probe `yaml:"readinessProbe"`
					Resources    any
					Security     any `yaml:"securityContext"`
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
						ReadOnly  bool   `yaml:"readOnly"`
					} `yaml:"volumeMounts"`
				}
				Volumes []volume
			}
		}
	}
}

// The objects for Kubernetes fit each other and the program: the daemon takes the configuration and serves what is probed.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	var d deployment
	var settings struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   named
		Data       map[string]string
	}
	var service struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   named
		Spec       struct {
			Selector map[string]string
			Ports    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(read(t, "deploy/kubernetes/tidemark.yaml")))
	dec.KnownFields(true)
	for _, into := range []any{&settings, &d, &service} {
		if err := dec.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	if err := dec.Decode(&settings); !errors.Is(err, io.EOF) {
		t.Errorf("after the last object: %v", err)
	}
	if settings.Kind != "ConfigMap" || d.Kind != "Deployment" || service.Kind != "Service" {
		t.Errorf("kinds %s, %s, %s", settings.Kind, d.Kind, service.Kind)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	at := c.Args[slices.Index(c.Args, "--config")+1]
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v volume) bool {
			return v.Name == m.Name && (v.ConfigMap == nil || v.ConfigMap.Name == settings.Metadata.Name && m.MountPath == filepath.Dir(at))
		}) {
			t.Errorf("mount %+v has no volume, or not the configuration", m)
		}
	}
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(file, []byte(settings.Data[filepath.Base(at)]), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Input{File: file})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(l.HTTP.Address, ":")
	if c.Ports[0].Port != 7427 || port != "7427" || service.Spec.Ports[0].Port != 7427 || service.Spec.Ports[0].TargetPort != c.Ports[0].Name {
		t.Errorf("ports: %+v, %s, %+v", c.Ports, port, service.Spec.Ports)
	}
	server := string(read(t, "internal/httpapi/server.go"))
	for _, p := range []probe{c.Liveness, c.Readiness} {
		if !strings.Contains(server, `"GET `+p.HTTPGet.Path+`"`) || p.HTTPGet.Port != c.Ports[0].Name {
			t.Errorf("probe %+v asks for what is not served", p)
		}
	}
	labels := d.Spec.Template.Metadata.Labels
	for k, v := range d.Spec.Selector.MatchLabels {
		if labels[k] != v || service.Spec.Selector[k] != v {
			t.Errorf("label %s: %v, %v", k, labels, service.Spec.Selector)
		}
	}
	if grace := l.Policy.Grace; int64(grace.Seconds()) >= pod.Grace {
		t.Errorf("the end takes up to %v more than the looks, the pod is killed after %d s", grace, pod.Grace)
	}
}
