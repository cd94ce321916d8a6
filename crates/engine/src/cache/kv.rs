//! Keys and values in blocks of tokens.

use super::Block;

/// The blocks of one sequence, in the order of its tokens.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a>(pub(crate) &'a [Block]);

/// Keys and values of all blocks. The operating system gives memory to a block when it is first written.
pub(crate) struct Kv {
    /// For each layer: keys, then values.
    layers: Vec<[Vec<f32>; 2]>,
    block_size: usize,
    heads: usize,
    head_width: usize,
}

// === impl Kv ===

impl Kv {
    pub(crate) fn new(
        layers: usize,
        blocks: usize,
        block_size: usize,
        heads: usize,
        head_width: usize,
    ) -> Self {
        let numbers = blocks * block_size * heads * head_width;
        let layers = (0..layers).map(|_| [vec![0.0; numbers], vec![0.0; numbers]]).collect();
        Self { layers, block_size, heads, head_width }
    }

    pub(crate) fn head_width(&self) -> usize {
        self.head_width
    }

    /// Stores keys and values of all heads of one token.
    pub(crate) fn store(
        &mut self,
        layer: usize,
        table: &Table<'_>,
        position: usize,
        keys: &[f32],
        values: &[f32],
    ) {
        let block = table.0[position / self.block_size];
        for (side, numbers) in [keys, values].into_iter().enumerate() {
            for (head, numbers) in numbers.chunks_exact(self.head_width).enumerate() {
                let start = self.start(block, head) + position % self.block_size * self.head_width;
                self.layers[layer][side][start..start + self.head_width].copy_from_slice(numbers);
            }
        }
    }

    /// The keys of one head for the first `length` tokens of a sequence.
    pub(crate) fn keys(
        &self,
        layer: usize,
        head: usize,
        table: &Table<'_>,
        length: usize,
    ) -> impl Iterator<Item = &[f32]> {
        self.side(0, layer, head, table, length)
    }

    /// The values of one head for the first `length` tokens of a sequence.
    pub(crate) fn values(
        &self,
        layer: usize,
        head: usize,
        table: &Table<'_>,
        length: usize,
    ) -> impl Iterator<Item = &[f32]> {
        self.side(1, layer, head, table, length)
    }

    fn side(
        &self,
        side: usize,
        layer: usize,
        head: usize,
        table: &Table<'_>,
        length: usize,
    ) -> impl Iterator<Item = &[f32]> {
        let numbers = &self.layers[layer][side];
        let block_numbers = self.block_size * self.head_width;
        table
            .0
            .iter()
            .flat_map(move |block| {
                let start = self.start(*block, head);
                numbers[start..start + block_numbers].chunks_exact(self.head_width)
            })
            .take(length)
    }

    /// A block holds its tokens head by head, so that a head's keys lie side by side.
    fn start(&self, block: Block, head: usize) -> usize {
        (block.index() * self.heads + head) * self.block_size * self.head_width
    }
}
