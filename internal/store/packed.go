package store

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// packed is a one-dimensional PostgreSQL array in its binary form (array_recv: number
// of dimensions, null flag, element type, length, lower bound, then length and bytes
// of each element), built element by element: a column of a multi-row statement.
type packed struct {
	buf     []byte
	n       uint32
	element uint32
}

const packedHeader = 20

// Object ids of the element types, fixed in PostgreSQL's pg_type.dat.
const (
	oidBool      = pgtype.BoolOID
	oidBytes     = pgtype.ByteaOID
	oidLong      = pgtype.Int8OID
	oidInt       = pgtype.Int4OID
	oidText      = pgtype.TextOID
	oidTimestamp = pgtype.TimestamptzOID
	oidUUID      = pgtype.UUIDOID
)

// timestampEpoch is where PostgreSQL counts microseconds from.
var timestampEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (p *packed) start(bytes uint32) {
	if p.buf == nil {
		p.buf = make([]byte, packedHeader, 256)
	}
	p.n++
	p.buf = binary.BigEndian.AppendUint32(p.buf, bytes)
}

func (p *packed) reset() {
	p.n = 0
	if p.buf != nil {
		p.buf = p.buf[:packedHeader]
	}
}

func (p *packed) null() { p.start(1<<32 - 1) }

func (p *packed) bytes(b []byte) {
	p.start(uint32(len(b)))
	p.buf = append(p.buf, b...)
}

func (p *packed) text(s string) {
	p.start(uint32(len(s)))
	p.buf = append(p.buf, s...)
}

func (p *packed) num(v int32) {
	p.start(4)
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(v))
}

func (p *packed) long(v int64) {
	p.start(8)
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v))
}

func (p *packed) flag(v bool) {
	p.start(1)
	var b byte
	if v {
		b = 1
	}
	p.buf = append(p.buf, b)
}

func (p *packed) when(t time.Time) { p.long(milliseconds(t).UnixMicro() - timestampEpoch) }

// encoded is the array's binary form.
func (p *packed) encoded() []byte {
	if p.n == 0 { // no dimension
		return binary.BigEndian.AppendUint32(make([]byte, 8, 12), p.element)
	}
	binary.BigEndian.PutUint32(p.buf[0:], 1)
	binary.BigEndian.PutUint32(p.buf[4:], 1) // may hold nulls
	binary.BigEndian.PutUint32(p.buf[8:], p.element)
	binary.BigEndian.PutUint32(p.buf[12:], p.n)
	binary.BigEndian.PutUint32(p.buf[16:], 1)
	return p.buf
}

// teachPacked makes pgx send a *packed as it is, to a parameter of its array type.
func teachPacked(m *pgtype.Map) {
	m.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapPacked}, m.TryWrapEncodePlanFuncs...)
}

func wrapPacked(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	if _, ok := value.(*packed); !ok {
		return nil, nil, false
	}
	return packedPlan{}, noElements{}, true
}

type packedPlan struct{}

// SetNext implements pgtype.WrappedEncodePlanNextSetter; there is nothing left to encode.
func (packedPlan) SetNext(pgtype.EncodePlan) {}

// Encode implements pgtype.EncodePlan.
func (packedPlan) Encode(value any, buf []byte) ([]byte, error) {
	return append(buf, value.(*packed).encoded()...), nil
}

// noElements makes pgx look for the plan of an array, whatever its elements.
type noElements struct{}

func (noElements) Dimensions() []pgtype.ArrayDimension { return nil }
func (noElements) Index(int) any                       { return nil }
func (noElements) IndexType() any                      { return nil }
