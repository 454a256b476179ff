package kafka

// Ownership says whose a table is among the processes of a consumer group.
type Ownership int

// The answers of Owns.
const (
	// Unknown: this process is in no group now, or no message of the table has shown its partition. The table's lease alone decides.
	Unknown Ownership = iota
	// Owned: the table's partition is ours; take its lease.
	Owned
	// Elsewhere: the table's partition is another process's; give its lease up.
	Elsewhere
)

// Owns says whose a table is, by the table's name (hoodie.table.name), which is the key of its messages: all messages of a name
// come in one partition, and so two tables of one name have the same owner. It is known from a table's first message on.
func (s *Source) Owns(name string) Ownership {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.seen[name]
	switch {
	case !known || !s.member:
		return Unknown
	case s.held[at] != nil:
		return Owned
	}
	return Elsewhere
}
