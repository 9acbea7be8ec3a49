"""Import paths of earlier versions that no module has any more, each with the modules of its names.

Former paths work for one more release: the first use of a name gives a DeprecationWarning with the
new path. `_upstream_paths.py` resolves them, and says how an entry is written.
"""

from __future__ import annotations

FORMER_PATHS: dict[str, tuple[str, ...]] = {
    "exir.save_load": ("exir.program.save_load",),
    "quantizer.compare": ("quantizer.sqnr",),
    "quantizer.compose": ("quantizer.composable_quantizer",),
    "quantizer.groups": (
        "quantizer.groupwise",
        "quantizer.groupwise:EMBEDDINGS>TABLES GROUP_MULTIPLE>GROUP_OF_XNNPACK",
        "quantizer.groupwise:annotate_groupwise>take leave_embeddings>leave_tables",
    ),
    "quantizer.norms": ("quantizer.fold_batch_norm",),
    "quantizer.program_io": ("quantizer.quantize_io",),
    "quantizer.ranges": ("quantizer.histogram_range",),
    "quantizer.recurrent": ("backends.xnnpack.quantizer.recurrent",),
    "quantizer.report": ("quantizer.observer_report",),
    "quantizer.rounding": (
        "quantizer.gptq",
        "quantizer.gptq:round_to_nearest>nearest round_gptq>compensated",
    ),
    "quantizer.search": ("quantizer.mixed_precision",),
    "quantizer.training": ("quantizer.qat",),
    "quantizer.validate": (
        "backends.xnnpack.quantizer.validate",
        "quantizer.annotate:AnnotationError AnnotationWarning",
    ),
    "quantizer.xnnpack": ("backends.xnnpack.quantizer.xnnpack_quantizer",),
    "testing.quanta": ("testing.quantization_step:output_steps>output_quanta",),
}
