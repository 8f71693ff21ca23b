"""The exact public names: of `prototorch`, and of each public module. A name that is added or goes is changed here."""

from __future__ import annotations

import importlib
import operator
import subprocess
import sys

import pytest

import prototorch as pt
from prototorch.eager.namespace import NAMES as TENSOR_NAMES
from prototorch.eager.registry import FUNCTIONS

NAMES = {
    "prototorch": """
        Callback Data EvaluationResult Function Generator Graph Input Layer Model Module Sequential Variable Weights
        __version__ autograd backends caffe callbacks compile constraints cuda data default_generator errors
        evaluation_report generate generate_stream func grad gradients group initializers layers linalg load
        load_compiled load_model losses manual_seed metrics model_from_bytes models nn ops optim optimizers
        permutation_importance read_weights regularizers save schedules special training utils
    """,
    "layers": """
        Abs Activation ActivityRegularization AdaptiveAveragePooling2D Add AddLoss AdditiveAttention
        AlphaDropout ArgMax ArgMin Attention Average AveragePooling1D AveragePooling2D AveragePooling3D
        BatchNormalization Bias Bidirectional Binarize BroadcastTo CELU Cast CategoryEncoding Ceil
        CenterCrop ClassAccuracy ClassToken Clip ColorChannels Concatenate ContrastivePairLoss Conv1D
        Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D
        Copies Cos CropLike Cropping1D Cropping2D Cropping3D CumSum Dense DepthToSpace DepthwiseConv1D
        DepthwiseConv2D Discretization Divide Dot Dropout ELU Embedding Equal Erf EuclideanLoss Expm1
        Exponential Flatten Floor FullLike GELU GRU GRUCell GaussianDropout GaussianNoise
        GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D
        GlobalMaxPooling2D GlobalMaxPooling3D Greater GreaterEqual GroupNormalization GroupQueryAttention
        HardShrink HardSigmoid HardSwish HingeLoss InfogainLoss IntegerLookup Interpolate LRN LSTM LSTMCell
        LSTMUnit Layer LayerNormalization LeakyReLU Less LessEqual Linear Log Log1p LogSigmoid LogSoftmax
        LogSumExp LogicalAnd LogicalNot LogicalOr LogicalXor Masking MatMul MaxPooling1D MaxPooling2D
        MaxPooling3D Maximum MeanVarianceNormalization Minimum Mish Mod MultiHeadAttention
        MultinomialLogisticLoss Multiply Negative Noise NormalKLDivergence Normalization PReLU Pad Parameter
        Permute PositionEmbedding Power RMSNormalization RNN RandomBrightness RandomContrast RandomCrop
        RandomFlip RandomRotation RandomTranslation RandomZoom ReLU ReLU6 Reciprocal ReduceMax ReduceMean
        ReduceMin ReduceProd ReduceSum RepeatVector Rescaling Reshape Resizing RotaryEmbedding Round SELU
        Sampling Scale SeparableConv1D SeparableConv2D SiLU Sigmoid SigmoidCrossentropyLoss Sign SimpleRNN
        SimpleRNNCell Sin SinePositionEncoding Slice SoftShrink Softmax SoftmaxCrossentropyLoss Softplus
        Softsign SpaceToDepth SparsePlus SparseSigmoid SpatialDropout1D SpatialDropout2D SpatialDropout3D
        SpatialPyramidPooling2D Split Sqrt Square Squareplus StackedRNNCells StochasticDepth
        StochasticPooling2D StopGradient StreamLSTM StreamRNN Subtract Take TakeAlongAxis TakeSamples Tan
        Tanh TextVectorization ThresholdedReLU Tile TimeDistributed TokenizerFile TopK Unfold UpSampling1D
        UpSampling2D UpSampling3D Variable Where ZeroPadding1D ZeroPadding2D ZeroPadding3D
    """,
    "losses": """
        BinaryCrossentropy CategoricalCrossentropy CategoricalHinge ContrastiveLoss CosineSimilarity FunctionLoss Hinge
        Huber KLDivergence LogCosh Loss MeanAbsoluteError MeanAbsolutePercentageError MeanOutput MeanSquaredError
        MeanSquaredLogarithmicError Poisson SparseCategoricalCrossentropy SquaredHinge
        BCE KLD MAE MAPE MSE MSLE bce binary_crossentropy categorical_crossentropy categorical_hinge contrastive
        contrastive_loss cosine_similarity hinge huber kl_divergence kld kullback_leibler_divergence log_cosh logcosh
        mae mape mean mean_absolute_error mean_absolute_percentage_error mean_output mean_squared_error
        mean_squared_logarithmic_error mse msle poisson sparse_categorical_crossentropy squared_hinge
    """,
    "metrics": """
        AUC BinaryAccuracy BinaryCrossentropy CategoricalAccuracy CategoricalCrossentropy CategoricalHinge
        ConfusionMatrix CosineSimilarity F1Score FunctionMetric FBetaScore Hinge KLDivergence LogCoshError LossMetric
        MeanAbsoluteError MeanAbsolutePercentageError MeanIoU MeanSquaredError MeanSquaredLogarithmicError
        Metric Poisson Precision Recall RootMeanSquaredError SparseCategoricalAccuracy
        SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy SquaredHinge TopKCategoricalAccuracy
    """,
    "optimizers": """
        Adadelta Adagrad Adam AdamW Adamax Lion Nadam Optimizer RMSprop SGD
    """,
    "schedules": """
        ConstantSchedule CosineDecay CosineDecayRestarts ExponentialDecay InverseTimeDecay
        InversePowerDecay PiecewiseConstantDecay PolynomialDecay Schedule SigmoidSchedule StepDecay Warmup
    """,
    "callbacks": """
        CSVLogger Callback EarlyStopping History LambdaCallback LearningRateScheduler ModelCheckpoint
        ReduceLROnPlateau TerminateOnNaN Unfreeze
    """,
    "initializers": """
        Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity Initializer LecunNormal LecunUniform
        Ones Orthogonal RandomNormal RandomUniform TruncatedNormal UnitForgetBias VarianceScaling Zeros
        Bilinear PositiveUnitBall SparseNormal
    """,
    "regularizers": """
        L1 L1L2 L2 OrthogonalRegularizer Regularizer
    """,
    "constraints": """
        ClipValue Constraint MaxNorm MinMaxNorm NonNeg UnitNorm
    """,
    "data": """
        ArrayDataset Batch BatchContext BatchStream BoundDataset Column DATASET_NAMES Data DataWarning Dataset
        ImageFileDataset ImageReader InputColumns Loader SampleError SiamesePairs SourceOptions TargetSpec TypedTable
        as_dataset bind check_dataset check_overlap open_image_files open_source register_array_format
    """,
    "optim": """
        ASGD Adadelta Adagrad Adam AdamW Adamax LBFGS NAdam Optimizer RAdam RMSprop Rprop SGD lr_scheduler swa_utils
    """,
    "optim.lr_scheduler": """
        ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LRScheduler
        LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR
    """,
    "utils": "checkpoint data",
    "utils.data": """
        BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler IterableDataset RandomSampler
        Sampler SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset WeightedRandomSampler
        default_collate default_convert get_worker_info random_split
    """,
    "caffe": """
        AdaDeltaSolver AdaGradSolver AdamSolver Blob Classifier Detector Layer NesterovSolver Net NetSpec
        RMSPropSolver SGDSolver Solver TEST TRAIN Timer allow_python coord_map draw get_solver has_nccl
        init_log io layer_type_list layers log net_spec params proto set_device set_mode_cpu set_mode_gpu
        set_multiprocess set_random_seed set_solver_count set_solver_rank solver_count solver_rank to_proto
    """,
    "nn": """
        LayerChild
    """,
    "linalg": """
        cholesky cond cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank multi_dot norm
        pinv qr slogdet solve solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm
    """,
    "special": """
        digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr log_softmax logit
        logsumexp multigammaln ndtr polygamma psi round sinc softmax xlog1py xlogy zeta
    """,
    "cuda": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor
        LongTensor OutOfMemoryError ShortTensor can_device_access_peer current_device device device_count empty_cache
        get_device_capability get_device_name get_rng_state init initial_seed is_available is_bf16_supported
        is_initialized manual_seed manual_seed_all max_memory_allocated mem_get_info memory_allocated
        memory_reserved reset_peak_memory_stats seed seed_all set_device set_rng_state synchronize
    """,
    "compat.tf1": """
        Session Variable abs add argmax assign cast concat constant constant_initializer contrib device divide equal exp
        float16 float32 float64 global_variables global_variables_initializer glorot_normal_initializer
        glorot_uniform_initializer gradients group int32 int64 layers log losses matmul maximum minimum multiply
        negative nn ones ones_initializer placeholder pow random_normal random_normal_initializer random_uniform
        random_uniform_initializer reduce_max reduce_mean reduce_min reduce_sum reset_default_graph reshape
        set_random_seed sigmoid sqrt square subtract tanh train trainable_variables truncated_normal
        truncated_normal_initializer uint8 variables_initializer variance_scaling_initializer where zeros
        zeros_initializer
    """,
    "backends": "cuda cudnn",
    "autograd": """
        Function Variable anomaly_mode backward detect_anomaly enable_grad function functional grad grad_mode
        gradcheck gradgradcheck graph
        inference_mode no_grad set_detect_anomaly set_grad_enabled
    """,
    "func": "functional_call grad grad_and_value hessian jacrev vjp",
    "errors": """
        BackendError DataError FileError GradientError IndexRangeError MissingMethodError ModelError ModelFileError
        ModelWarning OutOfMemoryError PrototorchError RangeError ResourceError ShapeError SnapshotError TextError
        TrainingError UsageError WeightsError
    """,
}
ROOTS = {"Constraint", "Initializer", "Layer", "Loss", "Metric", "Optimizer", "Regularizer", "Schedule"}


def _tensor_names(name: str) -> set[str]:
    """PyTorch's names, which tests/eager and tests/nn compare with PyTorch itself."""
    if name == "nn":
        return set(pt.nn.__all__) - {"LayerChild"}
    functions = set(FUNCTIONS)  # some are nn.functional's, which the package offers, too
    return {*TENSOR_NAMES, *functions} if name == "prototorch" else set()


def module_of(name: str):
    if "." in name:
        return importlib.import_module(f"prototorch.{name}")
    return pt if name == "prototorch" else operator.attrgetter(name)(pt)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_exactly_these(name):
    assert sorted(set(module_of(name).__all__) - _tensor_names(name)) == sorted(NAMES[name].split())


@pytest.mark.parametrize("name", NAMES)
def test_completion_offers_public_names_alone(name):
    module = module_of(name)
    offered = {n for n in dir(module) if not n.startswith("__")}
    offered = {n for n in offered if getattr(getattr(module, n), "__module__", "prototorch").startswith("prototorch")}
    assert offered | ROOTS >= set(NAMES[name].split()) - {"__version__"}
    assert offered - _tensor_names(name) <= set(NAMES[name].split())


@pytest.mark.parametrize("name", [*NAMES, "ops"])
def test_a_misspelt_public_name_is_corrected(name):
    module = module_of(name)
    word = max((n for n in module.__all__ if not n.startswith("_") and n not in ROOTS), key=len)
    with pytest.raises(AttributeError, match=rf"Did you mean .*'{word}'"):
        getattr(module, word[:-3] + word[-2:])


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name):
    module = module_of(name)
    assert all(hasattr(module, n) for n in module.__all__)


def test_schedules_are_not_optimizers():
    with pytest.raises(AttributeError, match=r"pt\.schedules\.CosineDecay"):
        _ = pt.optimizers.CosineDecay
    assert not {"Adam", "Optimizer"} & set(dir(pt.schedules))


def test_star_import_gives_the_public_names():
    names: dict[str, object] = {}
    exec("from prototorch import *", names)
    assert set(NAMES["prototorch"].split()) <= set(names)


def test_python_m_prototorch_is_the_command_line():
    run = subprocess.run([sys.executable, "-m", "prototorch", "--version"], capture_output=True, text=True, check=True)
    assert pt.__version__ in run.stdout


def test_public_names_do_not_name_modules_by_accident():
    modules = {name for name, (_, attribute) in importlib.import_module("prototorch")._PUBLIC.items() if not attribute}
    assert modules == {name for name in (*NAMES, "ops", "models") if "." not in name} - {"prototorch"}
