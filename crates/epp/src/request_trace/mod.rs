//! The trace of requests: when each arrived, how long it was, and how long its answer, in the form that `longboat simulate` reads.
//!
//! A trace is sorted by arrival, but a line is complete only when its response is. So lines wait for those before them. A request
//! only appends to a list in memory; a thread of its own writes the file. If the list is full, or the disk is slow or full, requests
//! are missing in the trace, and never wait. There are no prompts in it: blocks of a prompt are numbers from a keyed hash, whose key
//! is in this process only.

use std::{
    collections::VecDeque,
    hash::{BuildHasher as _, RandomState},
    mem,
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
};

use longboat_scheduler::{Prompt, Usage};
use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

mod file;

pub(crate) use file::TraceFile;

use crate::pool::Member;

/// The most requests that are held, because one before them is not complete.
pub(crate) const MAX_HELD_REQUESTS: usize = 8192;
/// The most numbers of blocks that are held, 8 bytes each.
const MAX_HELD_BLOCKS: usize = 4 << 20;
/// The bytes of a prompt that are one block. Tokens have four bytes, and four bytes of text are taken for a token, as the scheduler
/// does without a tokenizer.
const BLOCK_BYTES: usize = 64;
const BLOCK_TOKENS: u64 = 16;
/// The most blocks of a prompt; the tokens after them count as shared with nobody. One million bytes of text.
const MAX_BLOCKS: usize = 1 << 14;
/// The shortest prompt by which the tokens of a block of text are measured. In a shorter one, the chat template counts too much.
const MEASURED_BYTES: usize = 4096;
/// Numbers of blocks have at most 53 bits, so that programs that read numbers as floating point keep them.
const NUMBER_BITS: u64 = (1 << 53) - 1;
/// The most bytes that are kept of the name of a model.
const MAX_NAME_BYTES: usize = 256;

/// How much of each text a trace needs.
pub(crate) const TEXT_LIMIT: usize = MAX_BLOCKS * BLOCK_BYTES;

/// A request that has arrived.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    /// The model for the endpoint.
    pub(crate) model: &'a str,
    pub(crate) priority: i32,
    pub(crate) session: Option<&'a str>,
    pub(crate) prompts: &'a [Prompt],
    /// Whether the prompts are tokens.
    pub(crate) is_exact: bool,
}

/// One line of the trace.
#[derive(Debug)]
pub(crate) struct TraceLine {
    at: Instant,
    model: String,
    /// Whether `model` is a LoRA adapter.
    is_adapter: bool,
    priority: i32,
    session: Option<u64>,
    hash_ids: Vec<u64>,
    block_tokens: u64,
    prompt_tokens: u64,
    output_tokens: u64,
    /// The bytes of the prompt, if it is text.
    text_bytes: usize,
}

/// Requests of a trace, and the thread that writes them.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    shared: Arc<SharedBuffer>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The place of a request in the trace. If it is dropped before the request has ended, the trace leaves the request out.
#[derive(Debug)]
pub(crate) struct TraceEntry {
    shared: Arc<SharedBuffer>,
    number: u64,
    model: String,
    /// The events of a stream so far, which are counted because the response may have no usage.
    events: u64,
    was_newline: bool,
}

#[derive(Debug, Default)]
struct SharedBuffer {
    held: Mutex<TraceBuffer>,
    /// Lines can be written, or the trace is closed.
    changed: Condvar,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct TraceBuffer {
    /// The number of the first of `entries`.
    first: u64,
    /// By arrival.
    entries: VecDeque<Entry>,
    /// Complete, and no request before them is open.
    ready: Vec<TraceLine>,
    /// The blocks of `entries` and `ready`.
    blocks: usize,
    /// The tokens of a block of text.
    text_block_tokens: Option<u64>,
    left_out: u64,
    is_closed: bool,
}

#[derive(Debug)]
enum Entry {
    Open(TraceLine),
    Complete(TraceLine),
    Gone,
}

// === impl RequestTrace ===

impl RequestTrace {
    /// Starts to write to this file.
    pub(crate) fn start(file: TraceFile) -> std::io::Result<Self> {
        let shared = Arc::<SharedBuffer>::default();
        let writer = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("trace".to_owned()).spawn(move || writer.write(file))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Adds a request. `None` if there is no room, or if the trace is closed.
    pub(crate) fn arrived(&self, arrival: &Arrival<'_>) -> Option<TraceEntry> {
        let shared = &self.shared;
        let bytes = arrival.prompts.iter().map(|prompt| prompt.bytes.len() + prompt.cut).sum::<usize>();
        let model = arrival.model[..arrival.model.floor_char_boundary(MAX_NAME_BYTES)].to_owned();
        let mut line = TraceLine {
            at: Instant::now(),
            model: String::new(),
            is_adapter: false,
            priority: arrival.priority,
            session: arrival.session.map(|session| shared.hasher.hash_one(session) & NUMBER_BITS),
            hash_ids: shared.blocks(arrival.prompts),
            block_tokens: BLOCK_TOKENS,
            prompt_tokens: bytes.div_ceil(4) as u64,
            output_tokens: 0,
            text_bytes: if arrival.is_exact { 0 } else { bytes },
        };
        let mut held = shared.held.lock();
        if held.is_closed {
            return None;
        }
        if held.entries.len() >= MAX_HELD_REQUESTS {
            // The first request is open, or it would not be held. It must not hold back the others for ever.
            held.leave_out(0);
            held.advance();
            // The lines behind it wait for nothing now. If no room is left, no later request would wake the writer.
            shared.changed.notify_one();
        }
        if held.blocks + line.hash_ids.len() > MAX_HELD_BLOCKS || held.ready.len() >= MAX_HELD_REQUESTS {
            held.left_out += 1;
            return None;
        }
        let number = held.first + held.entries.len() as u64;
        held.blocks += line.hash_ids.len();
        // The time is taken under the lock, so that the entries are sorted.
        line.at = Instant::now();
        held.entries.push_back(Entry::Open(line));
        drop(held);
        Some(TraceEntry { shared: Arc::clone(shared), number, model, events: 0, was_newline: false })
    }

    /// Writes the lines that are complete, and ends.
    pub(crate) fn close(&self) {
        let mut held = self.shared.held.lock();
        held.is_closed = true;
        for index in 0..held.entries.len() {
            if matches!(held.entries[index], Entry::Open(_)) {
                held.leave_out(index);
            }
        }
        held.advance();
        drop(held);
        self.shared.changed.notify_one();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("Writing the trace of requests has failed.");
        }
    }
}

// === impl TraceEntry ===

impl TraceEntry {
    /// Counts the events in a part of a streamed response.
    pub(crate) fn chunk(&mut self, chunk: &[u8]) {
        for at in memchr::memchr_iter(b'\n', chunk) {
            let is_after_newline = if at == 0 { self.was_newline } else { chunk[at - 1] == b'\n' };
            self.events += u64::from(is_after_newline);
        }
        self.was_newline = chunk.last().map_or(self.was_newline, |last| *last == b'\n');
    }

    /// Records the end of the response. Without usage and without a stream, the length of the answer is not known, and the trace
    /// leaves the request out.
    pub(crate) fn ended(mut self, usage: Option<&Usage>, endpoint: Option<&Member>) {
        // The last event of a stream is `[DONE]`.
        let streamed = (self.events > 0).then(|| self.events - 1);
        let Some(output) = usage.map(|usage| usage.output).or(streamed) else { return };
        let is_adapter = endpoint.is_some_and(|endpoint| endpoint.has_adapter(&self.model));
        let model = mem::take(&mut self.model);
        let mut held = self.shared.held.lock();
        let Some(index) = held.index(self.number) else { return };
        let Some(entry) = held.entries.get_mut(index) else { return };
        let Entry::Open(mut line) = mem::replace(entry, Entry::Gone) else { return };
        (line.model, line.is_adapter) = (model, is_adapter);
        line.output_tokens = output.max(1);
        if let Some(usage) = usage.filter(|usage| usage.input > 0) {
            line.prompt_tokens = usage.input;
            if line.text_bytes >= MEASURED_BYTES {
                let tokens = (usage.input * BLOCK_BYTES as u64).div_ceil(line.text_bytes as u64);
                // Once, because equal blocks of different lengths would not be equal.
                held.text_block_tokens.get_or_insert(tokens.clamp(1, BLOCK_BYTES as u64));
            }
        }
        if line.text_bytes > 0 {
            line.block_tokens = held.text_block_tokens.unwrap_or(BLOCK_TOKENS);
        }
        held.entries[index] = Entry::Complete(line);
        held.advance();
        drop(held);
        self.shared.changed.notify_one();
    }
}

impl Drop for TraceEntry {
    fn drop(&mut self) {
        let mut held = self.shared.held.lock();
        let Some(index) = held.index(self.number) else { return };
        if matches!(held.entries.get(index), Some(Entry::Open(_))) {
            held.leave_out(index);
            held.advance();
            drop(held);
            self.shared.changed.notify_one();
        }
    }
}

// === impl TraceBuffer ===

impl TraceBuffer {
    /// The place of a request in `entries`. `None` if it was removed already.
    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn leave_out(&mut self, index: usize) {
        if let Entry::Open(line) | Entry::Complete(line) = mem::replace(&mut self.entries[index], Entry::Gone)
        {
            self.blocks -= line.hash_ids.len();
            self.left_out += 1;
        }
    }

    /// Moves the lines that can be written.
    fn advance(&mut self) {
        while let Some(entry) = self.entries.pop_front_if(|entry| !matches!(entry, Entry::Open(_))) {
            self.first += 1;
            if let Entry::Complete(line) = entry {
                self.ready.push(line);
            }
        }
    }
}

// === impl SharedBuffer ===

impl SharedBuffer {
    /// Returns the numbers of the blocks of a prompt. The number of a block depends on the blocks before it.
    fn blocks(&self, prompts: &[Prompt]) -> Vec<u64> {
        let blocks = prompts.iter().flat_map(|prompt| prompt.bytes.chunks_exact(BLOCK_BYTES));
        let chained = blocks.take(MAX_BLOCKS).scan(0, |before, block| {
            *before = self.hasher.hash_one((*before, block)) & NUMBER_BITS;
            Some(*before)
        });
        chained.collect()
    }

    /// Writes lines as they become ready, until the trace is closed.
    fn write(&self, mut file: TraceFile) {
        loop {
            let mut held = self.held.lock();
            while held.ready.is_empty() && !held.is_closed {
                self.changed.wait(&mut held);
            }
            let lines = mem::take(&mut held.ready);
            held.blocks -= lines.iter().map(|line| line.hash_ids.len()).sum::<usize>();
            let left_out = held.left_out;
            drop(held);
            if lines.is_empty() {
                return file.finish(left_out);
            }
            file.append(&lines);
        }
    }
}

/// Returns the file of a picker. For a folder, this is a file in it that has the names of the namespace and of the pool.
pub(crate) fn file_of(path: PathBuf, namespace: &str, pool: &str) -> PathBuf {
    if path.is_dir() { path.join(format!("{namespace}.{pool}.jsonl")) } else { path }
}
