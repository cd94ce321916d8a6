//! Reuses the large buffers of finished requests.
//!
//! The allocator gives a large free buffer back to the system within milliseconds. The next request then pays for each page of
//! its buffers again, which takes several times as long as to copy a body into them.

use parking_lot::Mutex;

/// The allocator keeps smaller buffers itself.
const MIN_BUFFER_BYTES: usize = 128 << 10;
/// Larger buffers are rare, and would take the place of many others.
const MAX_BUFFER_BYTES: usize = 2 << 20;
/// The most bytes in the pool.
const POOL_LIMIT_BYTES: usize = 4 << 20;

/// The free buffers, the oldest first.
#[derive(Debug)]
struct BufferPool(Mutex<Vec<Vec<u8>>>);

static POOL: BufferPool = BufferPool::new();

/// Returns an empty buffer with at least this capacity, and at most twice this capacity.
pub(crate) fn take(capacity: usize) -> Vec<u8> {
    POOL.take(capacity)
}

/// Takes a buffer that is no longer needed.
pub(crate) fn give(buffer: Vec<u8>) {
    POOL.give(buffer);
}

impl BufferPool {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn take(&self, capacity: usize) -> Vec<u8> {
        if capacity >= MIN_BUFFER_BYTES {
            let mut kept = self.0.lock();
            if capacity > MAX_BUFFER_BYTES {
                // A request this large needs the memory of the pool, too.
                kept.clear();
            }
            let fits = |buffer: &Vec<u8>| (capacity..=2 * capacity).contains(&buffer.capacity());
            if let Some(at) = kept.iter().position(fits) {
                return kept.remove(at);
            }
        }
        Vec::with_capacity(capacity)
    }

    fn give(&self, mut buffer: Vec<u8>) {
        if !(MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut kept = self.0.lock();
        kept.push(buffer);
        let mut bytes: usize = kept.iter().map(Vec::capacity).sum();
        while bytes > POOL_LIMIT_BYTES {
            bytes -= kept.remove(0).capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_where_it_fits_and_little_is_kept() {
        let pool = BufferPool::new();
        let mut buffer = Vec::with_capacity(300 << 10);
        buffer.push(1);
        let place = buffer.as_ptr();
        pool.give(buffer);
        let (smaller, larger) = (pool.take(MIN_BUFFER_BYTES), pool.take(301 << 10));
        assert!(smaller.as_ptr() != place && larger.as_ptr() != place, "too large, and too small");
        let again = pool.take(200 << 10);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert!(pool.0.lock().is_empty());
        for size in [MIN_BUFFER_BYTES - 1, MAX_BUFFER_BYTES + 1] {
            pool.give(Vec::with_capacity(size));
            assert!(pool.0.lock().is_empty(), "{size}");
        }
        for _ in 0..10 {
            pool.give(Vec::with_capacity(1 << 20));
        }
        assert_eq!(pool.0.lock().len(), POOL_LIMIT_BYTES >> 20);
        pool.take(MAX_BUFFER_BYTES + 1);
        assert!(pool.0.lock().is_empty());
    }
}
