package host

import (
	"os/exec"
	"testing"
)

func TestThisHost(t *testing.T) {
	t.Parallel()
	self, ok := Self()
	if !ok {
		t.Skip("this host has no names for processes")
	}
	if self.Dead() || self.Start == 0 || !Alive(self.PID) || Alive(1<<30) || !Alive(0) {
		t.Errorf("%+v", self)
	}
	if p, ok := Parse(self.String()); !ok || p != self {
		t.Errorf("%q became %+v, %v", self, p, ok)
	}
	again := self
	again.Start++
	if !again.Dead() {
		t.Error("a process whose number was given away counts as alive")
	}
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Skip(err)
	}
	over := Process{self.Host, c.Process.Pid, 1}
	if !over.Dead() {
		t.Error("a process that is over counts as alive")
	}
	over.Host += "x"
	if over.Dead() {
		t.Error("a process elsewhere counts as dead")
	}
	for _, text := range []string{"", "host=a;pid=1", "host=;pid=1;start=1", "host=a;pid=-1;start=1", "host=a;pid=x;start=1", "host=a;pid=1;start=1;", "pid=1;host=a;start=1"} {
		if p, ok := Parse(text); ok {
			t.Errorf("%q became %+v", text, p)
		}
	}
}
