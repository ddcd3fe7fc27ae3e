//! A cursor over one run, in either direction.

use std::sync::Arc;

use bytes::Bytes;
use dewar_types::Result;

use super::format::{Block, BlockCursor, BlockReverse, Partition};
use super::sorted_run::SortedRun;
use crate::Scan;

/// Stands at an entry, or behind the last.
pub(super) struct Cursor {
    run: Arc<SortedRun>,
    partition: Arc<Partition>,
    /// Numbers of the partition and of the block in it.
    partition_number: usize,
    block_number: usize,
    walk: BlockWalk,
}

enum BlockWalk {
    Up(BlockCursor),
    Down(BlockReverse),
}

impl Cursor {
    /// At the first entry of the range in the direction of the scan. It may stand beyond the
    /// range's other end.
    pub(super) async fn start(run: &Arc<SortedRun>, scan: &Scan<'_>) -> Result<Self> {
        if scan.reverse {
            Self::start_down(run, scan.to).await
        } else {
            Self::start_up(run, scan.from).await
        }
    }

    async fn start_up(run: &Arc<SortedRun>, from: &[u8]) -> Result<Self> {
        let partition_number = run.directory.find(from).unwrap_or(0);
        let partition = run.partition(partition_number).await?;
        let block_number = partition.find(from).unwrap_or(0);
        let block = run.block(partition.block(block_number)).await?;
        let mut walk = BlockCursor::new(block);
        let found = walk.seek(from).map_err(|why| run.malformed(why))?;
        let mut cursor = Self {
            run: Arc::clone(run),
            partition,
            partition_number,
            block_number,
            walk: BlockWalk::Up(walk),
        };
        if !found {
            cursor.advance_to_next_block().await?;
        }
        Ok(cursor)
    }

    /// From the last entry below `to` downwards; empty stands for the end.
    async fn start_down(run: &Arc<SortedRun>, to: &[u8]) -> Result<Self> {
        let last = run.directory.len() - 1;
        let partition_number = match to {
            [] => last,
            to => run.directory.find_below(to).unwrap_or(0),
        };
        let partition = run.partition(partition_number).await?;
        let block_number = match to {
            [] => partition.len() - 1,
            to => partition.find_below(to).unwrap_or(0),
        };
        let block = run.block(partition.block(block_number)).await?;
        let walk = BlockReverse::before(block, to).map_err(|why| run.malformed(why))?;
        let found = walk.key().is_some();
        let mut cursor = Self {
            run: Arc::clone(run),
            partition,
            partition_number,
            block_number,
            walk: BlockWalk::Down(walk),
        };
        if !found {
            cursor.advance_to_next_block().await?;
        }
        Ok(cursor)
    }

    /// Whether it goes downwards.
    pub(super) fn is_reverse(&self) -> bool {
        matches!(self.walk, BlockWalk::Down(_))
    }

    /// The key it stands at; `None` behind the last.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match &self.walk {
            BlockWalk::Up(block) => block.key(),
            BlockWalk::Down(block) => block.key(),
        }
    }

    /// The value it stands at, sharing its block's memory; `None` for a deletion.
    pub(super) fn value_bytes(&self) -> Option<Bytes> {
        match &self.walk {
            BlockWalk::Up(block) => block.value_bytes(),
            BlockWalk::Down(block) => block.value_bytes(),
        }
    }

    /// Goes on within the block; whether there was an entry.
    pub(super) fn advance_in_block(&mut self) -> Result<bool> {
        let advanced = match &mut self.walk {
            BlockWalk::Up(block) => block.advance(),
            BlockWalk::Down(block) => block.advance(),
        };
        advanced.map_err(|why| self.run.malformed(why))
    }

    /// Goes on to the next block in its direction; whether there is one.
    pub(super) async fn advance_to_next_block(&mut self) -> Result<bool> {
        // Blocks are never empty, but in a file that somebody made up.
        while let Some(block) = self.next_block().await? {
            let entered = match &mut self.walk {
                BlockWalk::Up(walk) => {
                    walk.enter(block);
                    walk.advance()
                }
                BlockWalk::Down(walk) => BlockReverse::before(block, b"").map(|fresh| {
                    *walk = fresh;
                    walk.key().is_some()
                }),
            };
            if entered.map_err(|why| self.run.malformed(why))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn next_block(&mut self) -> Result<Option<Block>> {
        let reverse = self.is_reverse();
        let within = if reverse {
            self.block_number.checked_sub(1)
        } else {
            Some(self.block_number + 1).filter(|&n| n < self.partition.len())
        };
        self.block_number = match within {
            Some(n) => n,
            None => {
                let next = if reverse {
                    self.partition_number.checked_sub(1)
                } else {
                    Some(self.partition_number + 1).filter(|&n| n < self.run.directory.len())
                };
                let Some(next) = next else {
                    return Ok(None);
                };
                self.partition = self.run.partition(next).await?;
                self.partition_number = next;
                if reverse { self.partition.len() - 1 } else { 0 }
            }
        };
        let block = self.partition.block(self.block_number);
        self.run.block(block).await.map(Some)
    }
}
