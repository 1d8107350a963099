"""Training: models that are fast on sampled batches, and a trainer that stops and resumes exactly.

Needs torch (`pip install graphzero[torch]`); importing `graphzero` alone does not.
"""

from __future__ import annotations

from ..machine.monitor import MemoryMonitor
from .checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from .columns import TableEncoder, to_tensor_frame
from .hetero import HeteroSAGE
from .history import read_result
from .models import GCN, GraphSAGE, SampledModel, make_model
from .predictions import PredictionReport, predict
from .records import EpochRecord, Observer, TrainingData, TrainOptions, TrainResult
from .state import load_model
from .trainer import Trainer
from .typed_inference import typed_inference

__all__ = [
    "GCN",
    "Checkpoint",
    "EpochRecord",
    "GraphSAGE",
    "HeteroSAGE",
    "MemoryMonitor",
    "Observer",
    "PredictionReport",
    "SampledModel",
    "TableEncoder",
    "TrainOptions",
    "TrainResult",
    "Trainer",
    "TrainingData",
    "load_checkpoint",
    "load_model",
    "make_model",
    "predict",
    "read_result",
    "save_checkpoint",
    "to_tensor_frame",
    "typed_inference",
]
