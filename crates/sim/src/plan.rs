//! The plan of a run from its seed: the machine, its limits, the faults.
//!
//! Limits are small, so that segments fill, journals wrap and layers freeze within a few dozen
//! operations.

use std::time::Duration;

use dewar_engine::EngineConfig;
use dewar_env::disk::sim::SimLatency;
use dewar_env::sim::SimRng;
use dewar_journal::JournalConfig;
use dewar_types::Layout;

/// The behaviour of the disks of a run, which decides the guarantees that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Disks work; power fails and processes die. Nothing may fail while there is power.
    Calm,
    /// Up to m disks, the same for the whole run, may fail in any way. Reads must not fail, and
    /// nothing may be lost.
    Storm,
    /// Any disk may be absent, hang, be slow or full or return errors for a time, but keeps its
    /// synced data. Any operation may fail meanwhile. When all disks are back, nothing is lost.
    Fog,
    /// More than m disks do anything at all. Only wrong bytes are wrong.
    Doom,
}

/// The operations of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All verbs, with pauses.
    All,
    /// Small objects are written one after the other without a pause, so that journals and segments
    /// fill faster than they are emptied.
    Small,
    /// Few keys, written and deleted over and over while others read them.
    Few,
}

/// The emphasis of a seed. A third of the seeds have none. The others repeat one kind of event that
/// is rare by chance alone. Without them, only a few seeds in a thousand would notice a missing
/// safeguard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// No emphasis.
    Nothing,
    /// Shards rot, and get each other's pages.
    Shards,
    /// Files of the index rot.
    Index,
    /// Records and headers of journal files rot.
    Log,
    /// Epoch files rot, over many openings.
    EpochFiles,
    /// Processes end while they are opened, one after the other.
    Openings,
    /// Disks take records but no epoch files, or are absent, at one opening after the other.
    Epochs,
    /// The power fails while few disks answer, and those are absent afterwards.
    Few,
    /// The power fails while many groups of records are being written.
    Groups,
    /// Disks take no shards while objects are written.
    Full,
    /// All disks are absent for a moment again and again, while long objects come in slowly.
    Flaps,
    /// Everything that looks after disks and blobs runs all the time.
    Upkeep,
    /// The pool is made in several attempts.
    Birth,
    /// Objects with slow readers are replaced and deleted.
    Readers,
    /// The journal fills faster than the work that empties it.
    FullLog,
    /// Disks are restored to an earlier state, and the ledger is trusted.
    Old,
}

impl Focus {
    const ALL: [Self; 14] = [
        Self::Shards,
        Self::Index,
        Self::Log,
        Self::EpochFiles,
        Self::Openings,
        Self::Epochs,
        Self::Few,
        Self::Groups,
        Self::Full,
        Self::Flaps,
        Self::Upkeep,
        Self::Birth,
        Self::Readers,
        Self::FullLog,
    ];

    fn draw(rng: &SimRng) -> Self {
        let n = pick(rng, Self::ALL.len() * 3 / 2);
        // One of those that would dwell on nothing.
        if n == Self::ALL.len() {
            return Self::Old;
        }
        Self::ALL.get(n).copied().unwrap_or(Self::Nothing)
    }

    /// Whether what is on disks gets damaged.
    pub(crate) const fn is_damage(self) -> bool {
        matches!(
            self,
            Self::Shards | Self::Index | Self::Log | Self::EpochFiles
        )
    }

    /// The weather in which that happens.
    fn weather(self, rng: &SimRng) -> Weather {
        match self {
            Self::Nothing => match rng.below(10) {
                0..3 => Weather::Calm,
                3..7 => Weather::Storm,
                7..9 => Weather::Fog,
                _ => Weather::Doom,
            },
            Self::Shards
            | Self::Index
            | Self::Log
            | Self::EpochFiles
            | Self::Upkeep
            | Self::Old => Weather::Storm,
            Self::Openings if rng.coin() => Weather::Fog,
            Self::Openings | Self::Groups | Self::Birth | Self::Readers | Self::FullLog => {
                Weather::Calm
            }
            Self::Epochs | Self::Few | Self::Full | Self::Flaps => Weather::Fog,
        }
    }
}

/// Everything that is drawn before a run begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Emphasis of the run.
    pub focus: Focus,
    /// Behaviour of the disks.
    pub weather: Weather,
    /// How many disks.
    pub disks: usize,
    /// Disks that may do anything, by number.
    pub victims: Vec<usize>,
    /// Operations of the clients.
    pub mix: Mix,
    /// Whether an administrator decides about disks.
    pub admin: bool,
    /// Configuration of the engine.
    pub engine: EngineConfig,
    /// How long disk operations take.
    pub latency: SimLatency,
    /// After which time a disk counts as hung.
    pub deadline: Duration,
    /// Processes one after the other.
    pub processes: usize,
    /// Clients at once.
    pub clients: usize,
    /// Operations of each client in one process.
    pub steps: u64,
    /// Different names in each directory.
    pub names: u64,
    /// Millionths of the core's pauses that yield.
    pub pauses: u32,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn new(rng: &SimRng) -> Self {
        // Data, parity, disks: never fewer than 2m+1, so that m can be lost and writes go on.
        const SHAPES: [(u8, u8, usize); 8] = [
            (1, 1, 3),
            (1, 1, 4),
            (2, 1, 3),
            (2, 1, 4),
            (2, 1, 5),
            (2, 2, 5),
            (4, 2, 6),
            (4, 2, 8),
        ];
        let focus = Focus::draw(rng);
        let (k, m, disks) = SHAPES[pick(rng, SHAPES.len())];
        let layout = Layout {
            unit: [4096, 8192, 16384][pick(rng, 3)],
            ..Layout::new(k, m).expect("in range")
        };
        let weather = focus.weather(rng);
        let victims = match weather {
            Weather::Calm | Weather::Fog => 0,
            Weather::Storm => 1 + pick(rng, usize::from(m)),
            Weather::Doom => usize::from(m) + 1,
        };
        let mut order: Vec<usize> = (0..disks).collect();
        shuffle(rng, &mut order);
        order.truncate(victims);
        let (latency, deadline) = speed(rng);
        let mix = match rng.below(10) {
            0 => Mix::Small,
            1..4 => Mix::Few,
            _ => Mix::All,
        };
        let mut engine = engine(rng, layout);
        if mix == Mix::Small {
            engine.small_bytes_max = [600, 1000][pick(rng, 2)];
            engine.segments.unsealed_max = 2 + pick(rng, 4);
            engine.journal.file_bytes = 64 << 10;
            engine.journal.files_max = 6;
        }
        bound_segments(&mut engine);
        let mut plan = Self {
            focus,
            weather,
            disks,
            victims: order,
            mix,
            admin: rng.below(3) == 0,
            engine,
            latency,
            deadline,
            processes: 2 + pick(rng, 3),
            clients: 1 + pick(rng, 4),
            steps: match mix {
                Mix::Small => 40 + rng.below(60),
                Mix::All | Mix::Few => 8 + rng.below(24),
            },
            names: match mix {
                Mix::Few => 1,
                Mix::All | Mix::Small => 2 + rng.below(6),
            },
            pauses: [0, 100_000, 500_000][pick(rng, 3)],
        };
        plan.dwell(rng);
        plan
    }

    /// Bends the plan to what it dwells on.
    fn dwell(&mut self, rng: &SimRng) {
        let seconds = Duration::from_secs;
        if self.focus.is_damage() {
            // One opening more for each that comes to nothing.
            self.processes += 2;
            self.mix = Mix::All;
        }
        match self.focus {
            Focus::Nothing | Focus::Shards => {}
            Focus::Birth => self.processes = 8,
            Focus::Index => self.engine.catalog.layer_keys = 20,
            // Records are only in the journal.
            Focus::Log => {
                self.engine.catalog.layer_keys = 1000;
                self.engine.catalog.layer_log_bytes = 200_000;
            }
            Focus::EpochFiles => self.shorten(rng, 6),
            Focus::Openings => {
                self.shorten(rng, 10);
                self.admin = false;
            }
            Focus::Epochs => {
                self.shorten(rng, 8);
                self.admin = false;
            }
            Focus::Few => {
                self.shorten(rng, 6);
                self.admin = false;
                self.steps = 20;
            }
            Focus::Groups => {
                let ms = Duration::from_millis;
                self.mix = Mix::Few;
                self.names = 3;
                // So many that few groups fit a file.
                self.clients = 16;
                self.steps = 10;
                self.processes = 5;
                self.engine.journal.groups_in_flight_max = 4;
                self.engine.journal.file_bytes = 64 << 10;
                self.latency = SimLatency {
                    read: (Duration::ZERO, ms(1)),
                    write: (Duration::ZERO, ms(1)),
                    sync: (ms(5), ms(60)),
                };
            }
            Focus::Full => {
                self.mix = Mix::All;
                self.admin = false;
                self.engine.small_bytes_max = 1000;
            }
            Focus::Flaps => {
                self.mix = Mix::All;
                self.engine.small_bytes_max = 1000;
                // Files are there for long before anything names them.
                self.latency = slow_syncs();
                self.deadline = seconds(5);
            }
            Focus::Upkeep => {
                self.latency = slow_syncs();
                self.deadline = seconds(5);
                self.mix = Mix::Few;
                self.admin = true;
                self.clients = 4;
                self.pauses = 500_000;
                self.engine.small_bytes_max = 1000;
                self.engine.upkeep.scrub_every = seconds(30);
                self.engine.upkeep.out_after = seconds(5);
            }
            Focus::Readers => {
                self.mix = Mix::Few;
                self.clients = 4;
                self.engine.small_bytes_max = 1000;
            }
            Focus::Old => {
                self.mix = Mix::All;
                // Who was removed has nothing to lose.
                self.admin = false;
                self.processes = 4;
                self.engine.small_bytes_max = 1000;
                // Nothing else finds what is not there.
                self.engine.upkeep.scrub_every = seconds(14 * 24 * 3600);
                self.engine.upkeep.out_after = seconds(600);
            }
            Focus::FullLog => {
                let ms = Duration::from_millis;
                self.mix = Mix::Small;
                self.clients = 6;
                self.steps = 60;
                self.engine.small_bytes_max = 1000;
                self.engine.segments.unsealed_max = 2;
                self.engine.journal.file_bytes = 64 << 10;
                self.engine.journal.files_max = 6;
                bound_segments(&mut self.engine);
                self.latency = SimLatency {
                    read: (Duration::ZERO, ms(1)),
                    write: (ms(5), ms(100)),
                    sync: (Duration::ZERO, ms(1)),
                };
            }
        }
    }

    /// More processes, each of which does less.
    fn shorten(&mut self, rng: &SimRng, processes: usize) {
        self.processes = processes;
        self.clients = 1 + pick(rng, 2);
        self.steps = 4 + rng.below(8);
        // Small objects are what the journal alone has for a while.
        self.mix = Mix::All;
        self.engine.catalog.layer_keys = 1000;
        self.engine.catalog.layer_log_bytes = 200_000;
    }
}

fn engine(rng: &SimRng, layout: Layout) -> EngineConfig {
    let mut engine = EngineConfig::new(layout);
    engine.small_bytes_max = [1000, 4096, 12_000][pick(rng, 3)];
    engine.part_bytes_min = 3000;
    engine.index_cache_bytes = 256 << 10;
    engine.segments.bytes = [20_000, 40_000, 100_000][pick(rng, 3)];
    engine.segments.unsealed_max = 2 + pick(rng, 4);
    engine.journal = JournalConfig {
        file_bytes: [64 << 10, 128 << 10, 512 << 10][pick(rng, 3)],
        files_max: 6 + pick(rng, 6),
        unacked_bytes_max: 256 << 10,
        groups_in_flight_max: 1 + pick(rng, 4),
        lag_bytes_max: 256 << 10,
        stall_max: Duration::from_secs(3),
        ..engine.journal
    };
    engine.catalog.layer_keys = [20, 100, 1000][pick(rng, 3)];
    engine.catalog.layer_log_bytes = [50_000, 200_000][pick(rng, 2)];
    engine.catalog.overlay_bytes_max = 1 << 20;
    let seconds = Duration::from_secs;
    engine.upkeep.scrub_every = seconds([30, 300, 14 * 24 * 3600][pick(rng, 3)]);
    engine.upkeep.out_after = seconds([5, 40, 600][pick(rng, 3)]);
    engine
}

/// Writers that wait for room in the journal keep their segment from being sealed, so what one
/// segment takes must not fill the journal: as in production, where it takes a fraction.
fn bound_segments(engine: &mut EngineConfig) {
    let files = engine.journal.files_max.saturating_sub(2) as u64;
    // Each slot may take a block of its own.
    let slots = files * engine.journal.file_bytes / 2 / 4096;
    let slot = engine.small_bytes_max / 2 + 100;
    let bytes = u32::try_from(slots)
        .unwrap_or(u32::MAX)
        .saturating_mul(slot);
    let least = engine.small_bytes_max + 1000;
    engine.segments.bytes = engine.segments.bytes.min(bytes).max(least);
}

fn slow_syncs() -> SimLatency {
    let ms = Duration::from_millis;
    SimLatency {
        read: (Duration::ZERO, ms(5)),
        write: (ms(1), ms(20)),
        sync: (ms(100), ms(800)),
    }
}

fn speed(rng: &SimRng) -> (SimLatency, Duration) {
    let ms = Duration::from_millis;
    let us = Duration::from_micros;
    let latency = match rng.below(3) {
        0 => SimLatency::default(),
        // A fast disk, whose operations overtake each other.
        1 => SimLatency {
            read: (us(5), us(200)),
            write: (us(5), us(100)),
            sync: (us(50), us(1000)),
        },
        // A slow one, with tails.
        _ => SimLatency {
            read: (us(100), ms(30)),
            write: (us(10), ms(20)),
            sync: (ms(1), ms(60)),
        },
    };
    (latency, [ms(1000), ms(5000)][pick(rng, 2)])
}

/// A number below `end` as an index.
pub(crate) fn pick(rng: &SimRng, end: usize) -> usize {
    usize::try_from(rng.below(end as u64)).unwrap_or(0)
}

pub(crate) fn shuffle<T>(rng: &SimRng, items: &mut [T]) {
    for n in (1..items.len()).rev() {
        items.swap(n, pick(rng, n + 1));
    }
}
