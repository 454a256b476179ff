package indexer

import (
	"sync"

	"tidemark/internal/hudi/mdt"
	"tidemark/markers"
	"tidemark/timeline"
)

// judged is what a process has found out about a table by its looks, as far as it holds for the next one: the same listing says the same,
// and an index that stands where a batch left it has the rest still before it. Whatever has changed is judged anew. So a catch-up of many
// batches goes through what is due once. It is safe for concurrent use; a course belongs to who makes batches.
type judged struct {
	mu      sync.Mutex // guards what follows
	active  *timeline.Timeline
	look    markers.Look         // of active, without what the archive was asked
	history *timeline.Timeline   // what courses are of, the longest that was read
	courses map[string]*onCourse // by index
	work    int                  // judgements of courses that were given up
}

// onCourse is the course of an index whose state makes that claim.
type onCourse struct {
	claim  markers.Claim
	course *markers.Course
	left   bool // it went on with a batch that is not visible yet, and may never be
}

// lookAt is markers.LookAt.
func (j *judged) lookAt(tl *timeline.Timeline) markers.Look {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.active != tl {
		j.active, j.look = tl, markers.LookAt(tl)
	}
	return j.look
}

// course returns the course of an index in a look: the one that its last batch left, if neither the timelines nor what the state says of the
// index has changed since.
func (j *judged) course(l *look, x *mdt.Index) *markers.Course {
	j.mu.Lock()
	defer j.mu.Unlock()
	if whole := l.table.Timeline.Whole(); j.history != whole || j.courses == nil {
		for name := range j.courses {
			j.give(name)
		}
		j.history, j.courses = whole, map[string]*onCourse{}
	}
	claim := claimOf(x)
	if on := j.courses[x.Name]; on != nil && !on.left && on.claim.Equal(claim) {
		return on.course
	}
	j.give(x.Name)
	all := l.Look
	all.Writes = l.writes
	course := all.Course(l.claim(x))
	j.courses[x.Name] = &onCourse{claim: claim, course: course}
	return course
}

// give gives a course up. j.mu is held.
func (j *judged) give(index string) {
	if on := j.courses[index]; on != nil {
		j.work += on.course.Judged()
		delete(j.courses, index)
	}
}

// leave says that the course of an index goes on, and is good for nothing unless it arrives.
func (j *judged) leave(index string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if on := j.courses[index]; on != nil {
		on.left = true
	}
}

// arrive keeps a course that was left, of an index of which the state now says what the batch made it say.
func (j *judged) arrive(x *mdt.Index, course *markers.Course) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if on := j.courses[x.Name]; on != nil && on.course == course {
		on.claim, on.left = claimOf(x), false
	}
}

// count is how many instants were judged so far, those judged again included.
func (j *judged) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.work
	for _, on := range j.courses {
		n += on.course.Judged()
	}
	return n
}
