//! The engines, each behind the little that Dewar asks of one.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;

pub type Batch = Vec<(Vec<u8>, Vec<u8>)>;

/// Memory that an engine may use for its caches, in bytes.
const CACHE_BYTES: u64 = 320 << 20;

/// The part of it that filters and sparse indexes get where that is a choice.
const PINNED_BYTES: u64 = 32 << 20;

/// A sorted index fed in batches; `apply` returns when the batch is durable.
pub trait BenchEngine {
    fn apply(&mut self, batch: Batch, upto: u64) -> Result<()>;
    /// Waits until background work is done.
    fn settle(&mut self) -> Result<()>;
    fn applied(&self) -> Result<u64>;
    fn get(&self, key: &[u8]) -> Result<Option<usize>>;
    /// Bytes of the next `limit` pairs.
    fn scan(&self, from: &[u8], limit: usize) -> Result<usize>;
}

/// Below all other keys.
const APPLIED: &[u8] = b"\0applied";

pub fn open(name: &str, path: &Path) -> Result<Box<dyn BenchEngine>> {
    std::fs::create_dir_all(path)?;
    Ok(match name {
        "runs" => Box::new(Runs::open(path, 1)?),
        "runs-2" => Box::new(Runs::open(path, 2)?),
        "lsm-tree" => Box::new(Lsm::open(path)?),
        "fjall" => Box::new(Fjall::open(path)?),
        "redb" => Box::new(Redb::open(path)?),
        "heed" => Box::new(Heed::open(path)?),
        other => anyhow::bail!("no engine {other}"),
    })
}

struct Runs {
    runtime: tokio::runtime::Runtime,
    index: dewar_kv::index::sorted_runs::RunIndex,
    view: Arc<dyn dewar_kv::index::IndexView>,
}

impl Runs {
    fn open(path: &Path, copies: usize) -> Result<Self> {
        use dewar_kv::index::Index;
        use dewar_kv::index::sorted_runs::{RunConfig, RunIndex};
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let mut disks: Vec<(dewar_types::DiskId, Arc<dyn dewar_env::Disk>)> = Vec::new();
        for n in 0..copies {
            let folder = path.join(format!("disk{n}"));
            std::fs::create_dir_all(&folder)?;
            let disk = dewar_env::RealDisk::open(folder, dewar_env::RealDiskConfig::default());
            let disk = Arc::new(runtime.block_on(disk)?);
            disks.push((dewar_types::DiskId(n as u128 + 1), disk));
        }
        let config = RunConfig {
            cache_bytes: (CACHE_BYTES - PINNED_BYTES) as usize,
            pinned_bytes: PINNED_BYTES as usize,
            ..RunConfig::new(copies, 1)
        };
        let env = dewar_env::Env::real();
        let index = runtime.block_on(async {
            match RunIndex::open(env.clone(), disks.clone(), config.clone()).await {
                Err(error) if error.kind() == dewar_types::ErrorKind::NotFound => {
                    RunIndex::create(env, disks, config, 0).await
                }
                other => other,
            }
        })?;
        let view = index.view();
        Ok(Self {
            runtime,
            index,
            view,
        })
    }
}

impl BenchEngine for Runs {
    fn apply(&mut self, batch: Batch, upto: u64) -> Result<()> {
        use dewar_kv::index::Index;
        let entries = batch.into_iter().map(|(k, v)| (k.into(), Some(v.into())));
        let entries: Vec<(Bytes, Option<Bytes>)> = entries.collect();
        self.runtime.block_on(self.index.apply(entries, upto))?;
        self.view = self.index.view();
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        use dewar_kv::index::Index;
        self.runtime.block_on(self.index.settle());
        self.view = self.index.view();
        Ok(())
    }

    fn applied(&self) -> Result<u64> {
        Ok(self.view.applied())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        let found = match self.view.get_now(key) {
            Some(found) => found?,
            None => self.runtime.block_on(self.view.get(key))?,
        };
        Ok(found.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize> {
        let scan = dewar_kv::Scan {
            from,
            to: &[],
            limit,
            reverse: false,
        };
        let page = self.runtime.block_on(self.view.scan(scan))?;
        Ok(page.pairs.iter().map(|(k, v)| k.len() + v.len()).sum())
    }
}

struct Lsm {
    tree: lsm_tree::AnyTree,
    seqno: lsm_tree::SequenceNumberCounter,
}

impl Lsm {
    fn open(path: &Path) -> Result<Self> {
        use lsm_tree::config::{BlockSizePolicy, CompressionPolicy, PinningPolicy};
        use lsm_tree::{AbstractTree, Cache, Config, SequenceNumberCounter};
        let seqno = SequenceNumberCounter::default();
        let visible = SequenceNumberCounter::default();
        let tree = Config::new(path, seqno.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE_BYTES)))
            .data_block_size_policy(BlockSizePolicy::all(16 << 10))
            .data_block_compression_policy(CompressionPolicy::disabled())
            .index_block_compression_policy(CompressionPolicy::disabled())
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_pinning_policy(PinningPolicy::all(true))
            .open()?;
        if let Some(highest) = tree.get_highest_seqno() {
            seqno.fetch_max(highest + 1);
            visible.fetch_max(highest + 1);
        }
        Ok(Self { tree, seqno })
    }
}

impl BenchEngine for Lsm {
    fn apply(&mut self, batch: Batch, upto: u64) -> Result<()> {
        use lsm_tree::AbstractTree;
        let mut ingestion = self.tree.ingestion()?;
        ingestion.write(APPLIED, upto.to_be_bytes())?;
        for (key, value) in batch {
            ingestion.write(key, value)?;
        }
        ingestion.finish()?;
        let strategy = lsm_tree::compaction::Leveled::default().with_table_target_size(64 << 20);
        let strategy = Arc::new(strategy);
        for _ in 0..4 {
            self.tree.compact(strategy.clone(), self.seqno.get())?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn applied(&self) -> Result<u64> {
        use lsm_tree::AbstractTree;
        let value = self.tree.get(APPLIED, lsm_tree::SeqNo::MAX)?;
        number(value.as_deref())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        use lsm_tree::AbstractTree;
        let value = self.tree.get(key, lsm_tree::SeqNo::MAX)?;
        Ok(value.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize> {
        use lsm_tree::{AbstractTree, Guard};
        let range = (Bound::Included(from.to_vec()), Bound::Unbounded);
        let mut bytes = 0;
        for guard in self
            .tree
            .range(range, lsm_tree::SeqNo::MAX, None)
            .take(limit)
        {
            let (key, value) = guard.into_inner()?;
            bytes += key.len() + value.len();
        }
        Ok(bytes)
    }
}

struct Fjall {
    _db: fjall::Database,
    space: fjall::Keyspace,
}

impl Fjall {
    fn open(path: &Path) -> Result<Self> {
        use fjall::config::{BlockSizePolicy, CompressionPolicy, PinningPolicy};
        let db = fjall::Database::builder(path)
            .cache_size(CACHE_BYTES)
            .open()?;
        let options = || {
            fjall::KeyspaceCreateOptions::default()
                .data_block_size_policy(BlockSizePolicy::all(16 << 10))
                .data_block_compression_policy(CompressionPolicy::disabled())
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_pinning_policy(PinningPolicy::all(true))
        };
        let space = db.keyspace("index", options)?;
        Ok(Self { _db: db, space })
    }
}

impl BenchEngine for Fjall {
    fn apply(&mut self, batch: Batch, upto: u64) -> Result<()> {
        let mut ingestion = self.space.start_ingestion()?;
        ingestion.write(APPLIED, upto.to_be_bytes())?;
        for (key, value) in batch {
            ingestion.write(key, value)?;
        }
        Ok(ingestion.finish()?)
    }

    fn settle(&mut self) -> Result<()> {
        // Its compaction has no handle to wait on: until it has written nothing for a second.
        let mut before = crate::measure::written();
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
            let now = crate::measure::written();
            if now == before {
                return Ok(());
            }
            before = now;
        }
    }

    fn applied(&self) -> Result<u64> {
        number(self.space.get(APPLIED)?.as_deref())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(self.space.get(key)?.map(|value| value.len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize> {
        let mut bytes = 0;
        let range = (Bound::Included(from.to_vec()), Bound::Unbounded);
        for guard in self.space.range::<Vec<u8>, _>(range).take(limit) {
            let (key, value) = guard.into_inner()?;
            bytes += key.len() + value.len();
        }
        Ok(bytes)
    }
}

const TABLE: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("index");

struct Redb {
    db: redb::Database,
}

impl Redb {
    fn open(path: &Path) -> Result<Self> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(CACHE_BYTES as usize);
        let db = builder.create(path.join("index.redb"))?;
        let write = db.begin_write()?;
        write.open_table(TABLE)?;
        write.commit()?;
        Ok(Self { db })
    }
}

impl BenchEngine for Redb {
    fn apply(&mut self, batch: Batch, upto: u64) -> Result<()> {
        let write = self.db.begin_write()?;
        {
            let mut table = write.open_table(TABLE)?;
            table.insert(APPLIED, &upto.to_be_bytes()[..])?;
            for (key, value) in &batch {
                table.insert(&key[..], &value[..])?;
            }
        }
        Ok(write.commit()?)
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn applied(&self) -> Result<u64> {
        use redb::ReadableDatabase;
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let value = table.get(APPLIED)?;
        number(value.as_ref().map(|value| value.value()))
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        use redb::ReadableDatabase;
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.map(|value| value.value().to_vec().len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize> {
        use redb::ReadableDatabase;
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let mut bytes = 0;
        for pair in table.range(from..)?.take(limit) {
            let (key, value) = pair?;
            bytes += key.value().to_vec().len() + value.value().to_vec().len();
        }
        Ok(bytes)
    }
}

type Map = heed::Database<heed::types::Bytes, heed::types::Bytes>;

struct Heed {
    env: heed::Env,
    map: Map,
}

impl Heed {
    fn open(path: &Path) -> Result<Self> {
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(64 << 30);
        // SAFETY: nothing else in this process or outside maps or changes the files.
        let env = unsafe { options.open(path)? };
        let mut write = env.write_txn()?;
        let map = env.create_database(&mut write, None)?;
        write.commit()?;
        Ok(Self { env, map })
    }
}

impl BenchEngine for Heed {
    fn apply(&mut self, batch: Batch, upto: u64) -> Result<()> {
        let mut write = self.env.write_txn()?;
        self.map.put(&mut write, APPLIED, &upto.to_be_bytes())?;
        for (key, value) in &batch {
            self.map.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn applied(&self) -> Result<u64> {
        let read = self.env.read_txn()?;
        number(self.map.get(&read, APPLIED)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        let read = self.env.read_txn()?;
        Ok(self.map.get(&read, key)?.map(|value| value.to_vec().len()))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize> {
        let read = self.env.read_txn()?;
        let mut bytes = 0;
        let range = (Bound::Included(from), Bound::Unbounded);
        for pair in self.map.range(&read, &range)?.take(limit) {
            let (key, value) = pair?;
            bytes += key.to_vec().len() + value.to_vec().len();
        }
        Ok(bytes)
    }
}

fn number(value: Option<&[u8]>) -> Result<u64> {
    let Some(value) = value else { return Ok(0) };
    let bytes: [u8; 8] = value.try_into().context("a number of 8 bytes")?;
    Ok(u64::from_be_bytes(bytes))
}
