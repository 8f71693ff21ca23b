"""Caffe's messages: for each the numbers, names, types and defaults of its fields.

Source: ``src/caffe/proto/caffe.proto`` of BVLC/caffe at 9b89154. ``*`` marks a repeated field, ``!`` a required one;
the type of a field is one of protobuf's, a message, or an enum (one inside the message first).
"""

from __future__ import annotations

__all__ = ["DEFINITIONS"]

DEFINITIONS = """
message BlobShape:
  1 dim int64* packed;
message BlobProto:
  1 num int32 = 0; 2 channels int32 = 0; 3 height int32 = 0; 4 width int32 = 0; 5 data float* packed;
  6 diff float* packed; 7 shape BlobShape; 8 double_data double* packed; 9 double_diff double* packed;
message BlobProtoVector:
  1 blobs BlobProto*;
message Datum:
  1 channels int32; 2 height int32; 3 width int32; 4 data bytes; 5 label int32; 6 float_data float*;
  7 encoded bool = false;
message FillerParameter:
  1 type string = "constant"; 2 value float = 0; 3 min float = 0; 4 max float = 1; 5 mean float = 0; 6 std float = 1;
  7 sparse int32 = -1; 8 variance_norm VarianceNorm = FAN_IN;
enum FillerParameter.VarianceNorm: FAN_IN=0 FAN_OUT=1 AVERAGE=2
message NetParameter:
  1 name string; 2 layers V1LayerParameter*; 3 input string*; 4 input_dim int32*; 5 force_backward bool = false;
  6 state NetState; 7 debug_info bool = false; 8 input_shape BlobShape*; 100 layer LayerParameter*;
enum Phase: TRAIN=0 TEST=1
message NetState:
  1 phase Phase = TEST; 2 level int32 = 0; 3 stage string*;
message NetStateRule:
  1 phase Phase; 2 min_level int32; 3 max_level int32; 4 stage string*; 5 not_stage string*;
message ParamSpec:
  1 name string; 2 share_mode DimCheckMode; 3 lr_mult float = 1.0; 4 decay_mult float = 1.0;
enum ParamSpec.DimCheckMode: STRICT=0 PERMISSIVE=1
message LayerParameter:
  1 name string; 2 type string; 3 bottom string*; 4 top string*; 5 loss_weight float*; 6 param ParamSpec*;
  7 blobs BlobProto*; 8 include NetStateRule*; 9 exclude NetStateRule*; 10 phase Phase; 11 propagate_down bool*;
  100 transform_param TransformationParameter; 101 loss_param LossParameter; 102 accuracy_param AccuracyParameter;
  103 argmax_param ArgMaxParameter; 104 concat_param ConcatParameter;
  105 contrastive_loss_param ContrastiveLossParameter; 106 convolution_param ConvolutionParameter;
  107 data_param DataParameter; 108 dropout_param DropoutParameter; 109 dummy_data_param DummyDataParameter;
  110 eltwise_param EltwiseParameter; 111 exp_param ExpParameter; 112 hdf5_data_param HDF5DataParameter;
  113 hdf5_output_param HDF5OutputParameter; 114 hinge_loss_param HingeLossParameter;
  115 image_data_param ImageDataParameter; 116 infogain_loss_param InfogainLossParameter;
  117 inner_product_param InnerProductParameter; 118 lrn_param LRNParameter;
  119 memory_data_param MemoryDataParameter; 120 mvn_param MVNParameter; 121 pooling_param PoolingParameter;
  122 power_param PowerParameter; 123 relu_param ReLUParameter; 124 sigmoid_param SigmoidParameter;
  125 softmax_param SoftmaxParameter; 126 slice_param SliceParameter; 127 tanh_param TanHParameter;
  128 threshold_param ThresholdParameter; 129 window_data_param WindowDataParameter;
  130 python_param PythonParameter; 131 prelu_param PReLUParameter; 132 spp_param SPPParameter;
  133 reshape_param ReshapeParameter; 134 log_param LogParameter; 135 flatten_param FlattenParameter;
  136 reduction_param ReductionParameter; 137 embed_param EmbedParameter; 138 tile_param TileParameter;
  139 batch_norm_param BatchNormParameter; 140 elu_param ELUParameter; 141 bias_param BiasParameter;
  142 scale_param ScaleParameter; 143 input_param InputParameter; 144 crop_param CropParameter;
  145 parameter_param ParameterParameter; 146 recurrent_param RecurrentParameter; 147 swish_param SwishParameter;
  148 clip_param ClipParameter;
message TransformationParameter:
  1 scale float = 1; 2 mirror bool = false; 3 crop_size uint32 = 0; 4 mean_file string; 5 mean_value float*;
  6 force_color bool = false; 7 force_gray bool = false;
message LossParameter:
  1 ignore_label int32; 2 normalize bool; 3 normalization NormalizationMode = VALID;
enum LossParameter.NormalizationMode: FULL=0 VALID=1 BATCH_SIZE=2 NONE=3
message AccuracyParameter:
  1 top_k uint32 = 1; 2 axis int32 = 1; 3 ignore_label int32;
message ArgMaxParameter:
  1 out_max_val bool = false; 2 top_k uint32 = 1; 3 axis int32;
message ClipParameter:
  1 min float!; 2 max float!;
message ConcatParameter:
  1 concat_dim uint32 = 1; 2 axis int32 = 1;
message BatchNormParameter:
  1 use_global_stats bool; 2 moving_average_fraction float = .999; 3 eps float = 1e-5;
message BiasParameter:
  1 axis int32 = 1; 2 num_axes int32 = 1; 3 filler FillerParameter;
message ContrastiveLossParameter:
  1 margin float = 1.0; 2 legacy_version bool = false;
message ConvolutionParameter:
  1 num_output uint32; 2 bias_term bool = true; 3 pad uint32*; 4 kernel_size uint32*; 5 group uint32 = 1;
  6 stride uint32*; 7 weight_filler FillerParameter; 8 bias_filler FillerParameter; 9 pad_h uint32 = 0;
  10 pad_w uint32 = 0; 11 kernel_h uint32; 12 kernel_w uint32; 13 stride_h uint32; 14 stride_w uint32;
  15 engine Engine = DEFAULT; 16 axis int32 = 1; 17 force_nd_im2col bool = false; 18 dilation uint32*;
enum ConvolutionParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message CropParameter:
  1 axis int32 = 2; 2 offset uint32*;
message DataParameter:
  1 source string; 2 scale float = 1; 3 mean_file string; 4 batch_size uint32; 5 crop_size uint32 = 0;
  6 mirror bool = false; 7 rand_skip uint32 = 0; 8 backend DB = LEVELDB; 9 force_encoded_color bool = false;
  10 prefetch uint32 = 4;
enum DataParameter.DB: LEVELDB=0 LMDB=1
message DropoutParameter:
  1 dropout_ratio float = 0.5;
message DummyDataParameter:
  1 data_filler FillerParameter*; 2 num uint32*; 3 channels uint32*; 4 height uint32*; 5 width uint32*;
  6 shape BlobShape*;
message EltwiseParameter:
  1 operation EltwiseOp = SUM; 2 coeff float*; 3 stable_prod_grad bool = true;
enum EltwiseParameter.EltwiseOp: PROD=0 SUM=1 MAX=2
message ELUParameter:
  1 alpha float = 1;
message EmbedParameter:
  1 num_output uint32; 2 input_dim uint32; 3 bias_term bool = true; 4 weight_filler FillerParameter;
  5 bias_filler FillerParameter;
message ExpParameter:
  1 base float = -1.0; 2 scale float = 1.0; 3 shift float = 0.0;
message FlattenParameter:
  1 axis int32 = 1; 2 end_axis int32 = -1;
message HDF5DataParameter:
  1 source string; 2 batch_size uint32; 3 shuffle bool = false;
message HDF5OutputParameter:
  1 file_name string;
message HingeLossParameter:
  1 norm Norm = L1;
enum HingeLossParameter.Norm: L1=1 L2=2
message ImageDataParameter:
  1 source string; 2 scale float = 1; 3 mean_file string; 4 batch_size uint32 = 1; 5 crop_size uint32 = 0;
  6 mirror bool = false; 7 rand_skip uint32 = 0; 8 shuffle bool = false; 9 new_height uint32 = 0;
  10 new_width uint32 = 0; 11 is_color bool = true; 12 root_folder string = "";
message InfogainLossParameter:
  1 source string; 2 axis int32 = 1;
message InnerProductParameter:
  1 num_output uint32; 2 bias_term bool = true; 3 weight_filler FillerParameter; 4 bias_filler FillerParameter;
  5 axis int32 = 1; 6 transpose bool = false;
message InputParameter:
  1 shape BlobShape*;
message LogParameter:
  1 base float = -1.0; 2 scale float = 1.0; 3 shift float = 0.0;
message LRNParameter:
  1 local_size uint32 = 5; 2 alpha float = 1.; 3 beta float = 0.75; 4 norm_region NormRegion = ACROSS_CHANNELS;
  5 k float = 1.; 6 engine Engine = DEFAULT;
enum LRNParameter.NormRegion: ACROSS_CHANNELS=0 WITHIN_CHANNEL=1
enum LRNParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message MemoryDataParameter:
  1 batch_size uint32; 2 channels uint32; 3 height uint32; 4 width uint32;
message MVNParameter:
  1 normalize_variance bool = true; 2 across_channels bool = false; 3 eps float = 1e-9;
message ParameterParameter:
  1 shape BlobShape;
message PoolingParameter:
  1 pool PoolMethod = MAX; 2 kernel_size uint32; 3 stride uint32 = 1; 4 pad uint32 = 0; 5 kernel_h uint32;
  6 kernel_w uint32; 7 stride_h uint32; 8 stride_w uint32; 9 pad_h uint32 = 0; 10 pad_w uint32 = 0;
  11 engine Engine = DEFAULT; 12 global_pooling bool = false; 13 round_mode RoundMode = CEIL;
enum PoolingParameter.PoolMethod: MAX=0 AVE=1 STOCHASTIC=2
enum PoolingParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
enum PoolingParameter.RoundMode: CEIL=0 FLOOR=1
message PowerParameter:
  1 power float = 1.0; 2 scale float = 1.0; 3 shift float = 0.0;
message PythonParameter:
  1 module string; 2 layer string; 3 param_str string = ""; 4 share_in_parallel bool = false;
message RecurrentParameter:
  1 num_output uint32 = 0; 2 weight_filler FillerParameter; 3 bias_filler FillerParameter; 4 debug_info bool = false;
  5 expose_hidden bool = false;
message ReductionParameter:
  1 operation ReductionOp = SUM; 2 axis int32 = 0; 3 coeff float = 1.0;
enum ReductionParameter.ReductionOp: SUM=1 ASUM=2 SUMSQ=3 MEAN=4
message ReLUParameter:
  1 negative_slope float = 0; 2 engine Engine = DEFAULT;
enum ReLUParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message ReshapeParameter:
  1 shape BlobShape; 2 axis int32 = 0; 3 num_axes int32 = -1;
message ScaleParameter:
  1 axis int32 = 1; 2 num_axes int32 = 1; 3 filler FillerParameter; 4 bias_term bool = false;
  5 bias_filler FillerParameter;
message SigmoidParameter:
  1 engine Engine = DEFAULT;
enum SigmoidParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message SliceParameter:
  1 slice_dim uint32 = 1; 2 slice_point uint32*; 3 axis int32 = 1;
message SoftmaxParameter:
  1 engine Engine = DEFAULT; 2 axis int32 = 1;
enum SoftmaxParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message SwishParameter:
  1 beta float = 1;
message TanHParameter:
  1 engine Engine = DEFAULT;
enum TanHParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message TileParameter:
  1 axis int32 = 1; 2 tiles int32;
message ThresholdParameter:
  1 threshold float = 0;
message WindowDataParameter:
  1 source string; 2 scale float = 1; 3 mean_file string; 4 batch_size uint32; 5 crop_size uint32 = 0;
  6 mirror bool = false; 7 fg_threshold float = 0.5; 8 bg_threshold float = 0.5; 9 fg_fraction float = 0.25;
  10 context_pad uint32 = 0; 11 crop_mode string = "warp"; 12 cache_images bool = false; 13 root_folder string = "";
message SPPParameter:
  1 pyramid_height uint32; 2 pool PoolMethod = MAX; 6 engine Engine = DEFAULT;
enum SPPParameter.PoolMethod: MAX=0 AVE=1 STOCHASTIC=2
enum SPPParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
message PReLUParameter:
  1 filler FillerParameter; 2 channel_shared bool = false;
message SolverParameter:
  1 train_net string; 2 test_net string*; 3 test_iter int32*; 4 test_interval int32 = 0; 5 base_lr float;
  6 display int32; 7 max_iter int32; 8 lr_policy string; 9 gamma float; 10 power float; 11 momentum float;
  12 weight_decay float; 13 stepsize int32; 14 snapshot int32 = 0; 15 snapshot_prefix string;
  16 snapshot_diff bool = false; 17 solver_mode SolverMode = GPU; 18 device_id int32 = 0;
  19 test_compute_loss bool = false; 20 random_seed int64 = -1; 21 train_net_param NetParameter;
  22 test_net_param NetParameter*; 23 debug_info bool = false; 24 net string; 25 net_param NetParameter;
  26 train_state NetState; 27 test_state NetState*; 28 snapshot_after_train bool = true;
  29 regularization_type string = "L2"; 30 solver_type SolverType = SGD; 31 delta float = 1e-8;
  32 test_initialization bool = true; 33 average_loss int32 = 1; 34 stepvalue int32*; 35 clip_gradients float = -1;
  36 iter_size int32 = 1; 37 snapshot_format SnapshotFormat = BINARYPROTO; 38 rms_decay float = 0.99;
  39 momentum2 float = 0.999; 40 type string = "SGD"; 41 layer_wise_reduce bool = true; 42 weights string*;
enum SolverParameter.SnapshotFormat: HDF5=0 BINARYPROTO=1
enum SolverParameter.SolverMode: CPU=0 GPU=1
enum SolverParameter.SolverType: SGD=0 NESTEROV=1 ADAGRAD=2 RMSPROP=3 ADADELTA=4 ADAM=5
message SolverState:
  1 iter int32; 2 learned_net string; 3 history BlobProto*; 4 current_step int32 = 0;
message V1LayerParameter:
  1 layer V0LayerParameter; 2 bottom string*; 3 top string*; 4 name string; 5 type LayerType; 6 blobs BlobProto*;
  7 blobs_lr float*; 8 weight_decay float*; 9 concat_param ConcatParameter;
  10 convolution_param ConvolutionParameter; 11 data_param DataParameter; 12 dropout_param DropoutParameter;
  13 hdf5_data_param HDF5DataParameter; 14 hdf5_output_param HDF5OutputParameter;
  15 image_data_param ImageDataParameter; 16 infogain_loss_param InfogainLossParameter;
  17 inner_product_param InnerProductParameter; 18 lrn_param LRNParameter; 19 pooling_param PoolingParameter;
  20 window_data_param WindowDataParameter; 21 power_param PowerParameter; 22 memory_data_param MemoryDataParameter;
  23 argmax_param ArgMaxParameter; 24 eltwise_param EltwiseParameter; 25 threshold_param ThresholdParameter;
  26 dummy_data_param DummyDataParameter; 27 accuracy_param AccuracyParameter;
  29 hinge_loss_param HingeLossParameter; 30 relu_param ReLUParameter; 31 slice_param SliceParameter;
  32 include NetStateRule*; 33 exclude NetStateRule*; 34 mvn_param MVNParameter; 35 loss_weight float*;
  36 transform_param TransformationParameter; 37 tanh_param TanHParameter; 38 sigmoid_param SigmoidParameter;
  39 softmax_param SoftmaxParameter; 40 contrastive_loss_param ContrastiveLossParameter; 41 exp_param ExpParameter;
  42 loss_param LossParameter; 1001 param string*; 1002 blob_share_mode DimCheckMode*;
enum V1LayerParameter.LayerType: NONE=0 ABSVAL=35 ACCURACY=1 ARGMAX=30 BNLL=2 CONCAT=3 CONTRASTIVE_LOSS=37
  CONVOLUTION=4 DATA=5 DECONVOLUTION=39 DROPOUT=6 DUMMY_DATA=32 EUCLIDEAN_LOSS=7 ELTWISE=25 EXP=38 FLATTEN=8
  HDF5_DATA=9 HDF5_OUTPUT=10 HINGE_LOSS=28 IM2COL=11 IMAGE_DATA=12 INFOGAIN_LOSS=13 INNER_PRODUCT=14 LRN=15
  MEMORY_DATA=29 MULTINOMIAL_LOGISTIC_LOSS=16 MVN=34 POOLING=17 POWER=26 RELU=18 SIGMOID=19
  SIGMOID_CROSS_ENTROPY_LOSS=27 SILENCE=36 SOFTMAX=20 SOFTMAX_LOSS=21 SPLIT=22 SLICE=33 TANH=23 WINDOW_DATA=24
  THRESHOLD=31
enum V1LayerParameter.DimCheckMode: STRICT=0 PERMISSIVE=1
message V0LayerParameter:
  1 name string; 2 type string; 3 num_output uint32; 4 biasterm bool = true; 5 weight_filler FillerParameter;
  6 bias_filler FillerParameter; 7 pad uint32 = 0; 8 kernelsize uint32; 9 group uint32 = 1; 10 stride uint32 = 1;
  11 pool PoolMethod = MAX; 12 dropout_ratio float = 0.5; 13 local_size uint32 = 5; 14 alpha float = 1.;
  15 beta float = 0.75; 16 source string; 17 scale float = 1; 18 meanfile string; 19 batchsize uint32;
  20 cropsize uint32 = 0; 21 mirror bool = false; 22 k float = 1.; 50 blobs BlobProto*; 51 blobs_lr float*;
  52 weight_decay float*; 53 rand_skip uint32 = 0; 54 det_fg_threshold float = 0.5; 55 det_bg_threshold float = 0.5;
  56 det_fg_fraction float = 0.25; 58 det_context_pad uint32 = 0; 59 det_crop_mode string = "warp";
  60 new_num int32 = 0; 61 new_channels int32 = 0; 62 new_height int32 = 0; 63 new_width int32 = 0;
  64 shuffle_images bool = false; 65 concat_dim uint32 = 1; 1001 hdf5_output_param HDF5OutputParameter;
enum V0LayerParameter.PoolMethod: MAX=0 AVE=1 STOCHASTIC=2
"""
