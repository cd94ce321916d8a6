//! What engines do with requests.

use std::{cmp::Reverse, sync::Arc};

use longboat_engine_model::{BlockHash, Engine, EnqueueError, Job, Output};
use longboat_kv_events::{Event as BlockEvent, GPU, Stored};

use super::{Event, OpenRequest, World, nanos};
use crate::{rejection::Refusal, sample::Outcome};

impl World<'_> {
    /// Gives a request to an engine: its prompt to a prefill endpoint, then the rest to the endpoint that decodes.
    pub(super) fn enqueue(&mut self, number: u64, member: usize, now: u64) {
        let Some(open) = self.open.get(&number) else { return };
        let only_prompt = open.prefill == Some(member) && !open.is_prefilled;
        let job = Job {
            id: number,
            hashes: Arc::clone(&open.hashes),
            prompt_tokens: open.times.prompt_tokens,
            output_tokens: if only_prompt { 1 } else { open.times.output_tokens },
            is_prefilled: open.is_prefilled,
        };
        if self.members[member].removed_at.is_some() {
            self.note_refusal(number, Refusal::Lost);
            return self.end(number, now);
        }
        self.members[member].requests += 1;
        let mut refused = None;
        self.with_engine(member, now, |engine, outputs| refused = engine.enqueue(job, outputs).err());
        match refused {
            Some(EnqueueError::QueueFull) => self.note_refusal(number, Refusal::EngineQueue),
            Some(EnqueueError::TooLong) => self.note_refusal(number, Refusal::TooLong),
            None => return,
        }
        self.end(number, now);
    }

    /// Brings an engine up to a moment, changes it, and handles what has happened.
    pub(super) fn with_engine(
        &mut self,
        number: usize,
        now: u64,
        change: impl FnOnce(&mut Engine, &mut Vec<Output>),
    ) {
        // Scrapes before this moment have read what the engine was before it changes.
        self.scrape(now);
        let member = &mut self.members[number];
        let mut outputs = std::mem::take(&mut member.outputs);
        member.engine.advance(now, &mut outputs);
        change(&mut member.engine, &mut outputs);
        member.generation += 1;
        if let Some(due) = member.change(now, nanos(self.settings.scrape)) {
            self.unread.push(Reverse((due, number)));
        }
        // The change may have moved all that was scheduled, so this is the only event that counts from here on.
        let next = member.engine.next().map(|at| (at, Event::Engine(number, member.generation)));
        if let Some((at, event)) = next {
            self.schedule_event(at, event);
        }
        for output in outputs.drain(..) {
            self.handle(number, output, now);
        }
        self.members[number].outputs = outputs;
        let member = &mut self.members[number];
        if member.is_draining
            && member.removed_at.is_none()
            && member.engine.load().running + member.engine.load().waiting == 0
        {
            member.leave(now);
            let slot = member.endpoint.slot;
            self.forget(slot);
        }
    }

    fn handle(&mut self, member: usize, output: Output, now: u64) {
        match output {
            Output::Started { id, waited_for_memory, cached_tokens, added, evicted } => {
                let Some(open) = self.open.get_mut(&id) else { return };
                if !open.is_prefilled {
                    open.times.started = now;
                    open.times.waited_for_memory = waited_for_memory;
                    open.times.cached_tokens = cached_tokens;
                }
                if self.knows_blocks {
                    let size = self.members[member].engine.parameters().block_size;
                    let events = block_events(open, size, added, evicted);
                    let (due, slot) =
                        (now + nanos(self.settings.event_delay), self.members[member].endpoint.slot);
                    self.block_events.extend(events.into_iter().map(|event| (due, slot, event)));
                }
            }
            Output::FirstToken(id) => {
                let Some(open) = self.open.get_mut(&id) else { return };
                if open.prefill == Some(member) && !open.is_prefilled {
                    return;
                }
                open.times.first_token = now;
                self.note_first_token(id, now);
            }
            Output::Finished(id) => {
                let Some(open) = self.open.get_mut(&id) else { return };
                if open.prefill == Some(member) && !open.is_prefilled {
                    open.is_prefilled = true;
                    let decode = open.decode;
                    return self.enqueue(id, decode, now);
                }
                open.times.finished = now;
                let times = open.times;
                self.recorder.answered(&times);
                self.sampler.end(id, Outcome::Answered(times));
                self.end(id, now);
            }
        }
    }
}

/// The events of an engine whose cache has changed for a request.
fn block_events(
    open: &OpenRequest,
    block_size: usize,
    added: std::ops::Range<usize>,
    evicted: Vec<BlockHash>,
) -> Vec<BlockEvent> {
    let mut events = Vec::new();
    if !open.tokens.is_empty() && !added.is_empty() {
        let bytes = &open.tokens[added.start * block_size * 4..added.end * block_size * 4];
        let tokens =
            bytes.chunks_exact(4).filter_map(|token| Some(u32::from_le_bytes(token.try_into().ok()?)));
        events.push(BlockEvent::Stored(Box::new(Stored {
            parent: added.start.checked_sub(1).map(|before| open.hashes[before]),
            tokens: tokens.collect(),
            hashes: open.hashes[added].to_vec(),
            block_size,
            medium: GPU.to_owned(),
            lora_name: Some(open.model.clone()).filter(|name| !name.is_empty()),
            ..Stored::default()
        })));
    }
    if !evicted.is_empty() {
        events.push(BlockEvent::Removed { hashes: evicted, medium: GPU.to_owned() });
    }
    events
}
