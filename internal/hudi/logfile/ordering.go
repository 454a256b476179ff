package logfile

// OrderingKind is the type of an ordering value; the numbers of the kinds above OrderingNone are the union branches of a delete record.
type OrderingKind int

// The kinds of ordering value. Int, Date, Long and the time kinds use Ordering.Int; Bool uses 0 and 1; Float and Double use
// Ordering.Float; Bytes, String and Decimal use Ordering.Bytes.
const (
	OrderingNone            OrderingKind = 0 // null, or IntWrapper 0: a delete by commit time
	OrderingBool            OrderingKind = 1
	OrderingInt             OrderingKind = 2
	OrderingLong            OrderingKind = 3
	OrderingFloat           OrderingKind = 4
	OrderingDouble          OrderingKind = 5
	OrderingBytes           OrderingKind = 6
	OrderingString          OrderingKind = 7
	OrderingDate            OrderingKind = 8 // days
	OrderingDecimal         OrderingKind = 9 // unscaled two's complement, big-endian
	OrderingTimeMicros      OrderingKind = 10
	OrderingTimestampMicros OrderingKind = 11
	// OrderingList is what a table with several ordering columns has: one part per column. A part that is null has the kind
	// OrderingNone.
	OrderingList OrderingKind = 12
)

// Ordering is the ordering value of a delete.
type Ordering struct {
	Kind  OrderingKind
	Int   int64
	Float float64
	Bytes []byte // copied
	Parts []Ordering
	Null  bool // of OrderingNone: stored as null, as by a soft delete without a value, not as the int 0
}

// Delete is one entry of a delete block.
type Delete struct {
	Key, Partition string
	Ordering       Ordering
}
