package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// timed is what a query takes on average: n of them were asked.
type timed struct {
	n         int
	wall, cpu time.Duration
}

// peer is another engine in a process of its own, which reads one JSON object a line and answers with one.
type peer struct {
	name, version string
	cmd           *exec.Cmd
	in            *json.Encoder
	out           *bufio.Scanner
	close         func() error
}

type peerAnswer struct {
	Error   string  `json:"error"`
	Version string  `json:"version"`
	CPU     float64 `json:"cpu"`  // seconds, of a build or of one query
	Wall    float64 `json:"wall"` // the same
	N       int     `json:"n"`
	Rows    [][]int `json:"rows"`
}

func startPeer(ctx context.Context, name string, command ...string) (*peer, error) {
	p := &peer{name: name, cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out, p.close = json.NewEncoder(in), bufio.NewScanner(out), in.Close
	p.out.Buffer(nil, 64<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	a, err := p.say(map[string]any{"do": "version"})
	p.version = a.Version
	return p, err
}

func (p *peer) say(request map[string]any) (a peerAnswer, err error) {
	if err := p.in.Encode(request); err != nil {
		return a, fmt.Errorf("ask %s: %w", p.name, err)
	}
	if !p.out.Scan() {
		return a, fmt.Errorf("%s ended", p.name)
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("%s answered %.100q: %w", p.name, p.out.Bytes(), err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", p.name, a.Error)
	}
	return a, nil
}

func (p *peer) stop() {
	_ = p.close()
	_ = p.cmd.Wait()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// build loads the rows, which it does not count, and builds the index.
func (p *peer) build(dir string, s *set, partitions int) (built, error) {
	a, err := p.say(map[string]any{"do": "build", "dir": dir, "dim": s.dim, "metric": s.metric.String(), "partitions": partitions, "bits": bits})
	return built{cpu: seconds(a.CPU), wall: seconds(a.Wall)}, err
}

// all returns the rows that answer all queries.
func (p *peer) all(probes, refine int) ([][]int, error) {
	a, err := p.say(map[string]any{"do": "all", "k": neighbours, "probes": probes, "refine": refine})
	return a.Rows, err
}

func (p *peer) time(probes, refine int, budget time.Duration) (timed, error) {
	a, err := p.say(map[string]any{"do": "time", "k": neighbours, "probes": probes, "refine": refine, "budget": budget.Seconds()})
	return timed{n: a.N, wall: seconds(a.Wall), cpu: seconds(a.CPU)}, err
}
